package console

import (
	"net/http"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
)

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
