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

// invitationPage asks for the token, or shows the offer and asks the invited person to accept it.
type invitationPage struct {
	Token, Name, Fault string
	Offer              *person.Offer // nil until the token is known
	Over               bool          // the invitation is no longer valid
	SignedIn           string        // name of the person who is signed in with the address of the offer; "" if nobody is
}

// invitation shows the form for the token. Links have the token in the fragment, which browsers
// never send. The page's script reads it and sends the form.
func (c *console) invitation(w http.ResponseWriter, _ *http.Request) error {
	c.render(w, http.StatusOK, "invitation", invitationPage{})
	return nil
}

// accept shows the offer of a token, or accepts it: for the signed-in person if the e-mail address
// matches, or with a name and a password. It rejects an invalid token before it asks for a name and
// a password.
func (c *console) accept(w http.ResponseWriter, r *http.Request) error {
	p := invitationPage{Token: r.PostFormValue("token"), Name: r.PostFormValue("name")}
	refuse := func(err error) error {
		var status int
		status, p.Fault = c.explain(r.Context(), w.Header(), err)
		p.Over = fault.CodeOf(err) == fault.NotFound
		c.render(w, status, "invitation", p)
		return nil
	}
	offer, err := c.People.LookUpInvitation(r.Context(), p.Token, c.client(r))
	if err != nil {
		return refuse(err)
	}
	p.Offer = &offer
	v, err := c.visitor(r, nil)
	signedIn := err == nil && v.Email == offer.Email && (v.Verified || !offer.Mailed)
	if signedIn {
		p.SignedIn = v.Name
	}
	switch {
	case r.PostForm.Has("password"):
		session, err := c.People.Accept(r.Context(), person.Acceptance{
			Token: p.Token, Name: p.Name, Password: r.PostFormValue("password"), Client: c.client(r),
		})
		if err != nil {
			return refuse(err)
		}
		session.SetCookies(w, c.Proxies.Secure(r))
	case signedIn && r.PostForm.Has("join"):
		if err := c.People.AcceptSignedIn(r.Context(), p.Token, v.Person, c.client(r)); err != nil {
			return refuse(err)
		}
	default:
		c.render(w, http.StatusOK, "invitation", p)
		return nil
	}
	return seeOther(w, r, "/settings/workspaces/"+offer.WorkspaceID.String())
}
