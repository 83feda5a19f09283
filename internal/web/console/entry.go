package console

import (
	"net/http"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
)

type signInPage struct{ Email, Fault string }

type troublePage struct{ Title, Fault string }

type nowherePage struct {
	User api.User
}

// start redirects a signed-in person to their first workspace. Without a session, it shows the
// sign-in form.
func (c *console) start(w http.ResponseWriter, r *http.Request) error {
	v, err := c.visitor(r, nil)
	if fault.CodeOf(err) == fault.Unauthorized {
		c.render(w, http.StatusOK, "sign-in", signInPage{Fault: openFaults[r.URL.Query().Get("link")]})
		return nil
	}
	if err != nil {
		return err
	}
	current, err := c.People.Current(r.Context(), v.Person, v.ExpiresAt)
	if err != nil {
		return err
	}
	if len(current.Workspaces) == 0 {
		c.render(w, http.StatusOK, "nowhere", nowherePage{User: current.User})
		return nil
	}
	return seeOther(w, r, "/settings/workspaces/"+current.Workspaces[0].ID.String())
}

// signIn creates a session and sets its cookies. On an error, it shows the form with the error.
func (c *console) signIn(w http.ResponseWriter, r *http.Request) error {
	email := r.PostFormValue("email")
	secure := c.Proxies.Secure(r)
	session, err := c.People.SignIn(r.Context(), person.Credentials{
		Email: email, Password: r.PostFormValue("password"), Client: c.client(r), Device: person.DeviceCookie(r, secure),
	})
	if err != nil {
		status, message := c.explain(r.Context(), w.Header(), err)
		c.render(w, status, "sign-in", signInPage{Email: email, Fault: message})
		return nil
	}
	session.SetCookies(w, secure)
	return seeOther(w, r, "/console")
}

func (c *console) signOut(w http.ResponseWriter, r *http.Request) error {
	if token := person.CookieToken(r, c.Proxies.Secure(r)); token != "" {
		if err := c.People.SignOut(r.Context(), token); err != nil {
			return err
		}
	}
	c.forget(w, r)
	return seeOther(w, r, "/settings")
}

// forget deletes the session cookie.
func (c *console) forget(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, person.Cookie("", c.Proxies.Secure(r)))
}
