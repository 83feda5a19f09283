package settings

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/page"
)

type nowherePage struct {
	User api.User
}

// start redirects a signed-in person to their first workspace. Without a session, it shows the
// sign-in form.
func (s *site) start(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Visitor(r, nil)
	if fault.CodeOf(err) == fault.Unauthorized {
		s.Render(w, http.StatusOK, "sign-in", page.SignIn{Fault: openFaults[r.URL.Query().Get("link")]})
		return nil
	}
	if err != nil {
		return err
	}
	current, err := s.People.Current(r.Context(), v.Person, v.ExpiresAt)
	if err != nil {
		return err
	}
	if len(current.Workspaces) == 0 {
		s.Render(w, http.StatusOK, "nowhere", nowherePage{User: current.User})
		return nil
	}
	return page.SeeOther(w, r, "/settings/workspaces/"+current.Workspaces[0].ID.String())
}

// signIn creates a session and sets its cookies. On an error, it shows the form with the error.
func (s *site) signIn(w http.ResponseWriter, r *http.Request) error {
	email := r.PostFormValue("email")
	secure := s.Proxies.Secure(r)
	session, err := s.People.SignIn(r.Context(), person.Credentials{
		Email: email, Password: r.PostFormValue("password"), Client: s.Client(r), Device: person.DeviceCookie(r, secure),
	})
	if err != nil {
		status, message := s.Explain(r.Context(), w.Header(), err)
		s.Render(w, status, "sign-in", page.SignIn{Email: email, Fault: message, Next: r.PostFormValue("next")})
		return nil
	}
	session.SetCookies(w, secure)
	return page.SeeOther(w, r, cmp.Or(ownPage(r.PostFormValue("next")), "/console"))
}

// ownPage returns the path of a page of the console or the settings. It returns "" for any other text,
// which could lead to another site.
func ownPage(next string) string {
	if strings.HasPrefix(next, "/console/") || strings.HasPrefix(next, "/settings/") {
		return next
	}
	return ""
}

func (s *site) signOut(w http.ResponseWriter, r *http.Request) error {
	if token := person.CookieToken(r, s.Proxies.Secure(r)); token != "" {
		if err := s.People.SignOut(r.Context(), token); err != nil {
			return err
		}
	}
	s.Forget(w, r)
	return page.SeeOther(w, r, "/settings")
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
func (s *site) invitation(w http.ResponseWriter, _ *http.Request) error {
	s.Render(w, http.StatusOK, "invitation", invitationPage{})
	return nil
}

// accept shows the offer of a token, or accepts it: for the signed-in person if the e-mail address
// matches, or with a name and a password. It rejects an invalid token before it asks for a name and
// a password.
func (s *site) accept(w http.ResponseWriter, r *http.Request) error {
	p := invitationPage{Token: r.PostFormValue("token"), Name: r.PostFormValue("name")}
	refuse := func(err error) error {
		var status int
		status, p.Fault = s.Explain(r.Context(), w.Header(), err)
		p.Over = fault.CodeOf(err) == fault.NotFound
		s.Render(w, status, "invitation", p)
		return nil
	}
	offer, err := s.People.LookUpInvitation(r.Context(), p.Token, s.Client(r))
	if err != nil {
		return refuse(err)
	}
	p.Offer = &offer
	v, err := s.Visitor(r, nil)
	signedIn := err == nil && v.Email == offer.Email && (v.Verified || !offer.Mailed)
	if signedIn {
		p.SignedIn = v.Name
	}
	switch {
	case r.PostForm.Has("password"):
		session, err := s.People.Accept(r.Context(), person.Acceptance{
			Token: p.Token, Name: p.Name, Password: r.PostFormValue("password"), Client: s.Client(r),
		})
		if err != nil {
			return refuse(err)
		}
		session.SetCookies(w, s.Proxies.Secure(r))
	case signedIn && r.PostForm.Has("join"):
		if err := s.People.AcceptSignedIn(r.Context(), p.Token, v.Person, s.Client(r)); err != nil {
			return refuse(err)
		}
	default:
		s.Render(w, http.StatusOK, "invitation", p)
		return nil
	}
	return page.SeeOther(w, r, "/settings/workspaces/"+offer.WorkspaceID.String())
}
