package console

import (
	"net/http"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// invitationPage asks for the token, or who accepts the offer that it stands for.
type invitationPage struct {
	Token, Name, Fault string
	Offer              *person.Offer // nil as long as the token is not known
	Over               bool          // there is nothing to accept
	SignedIn           string        // name of the person who is signed in with the address of the offer; "" if nobody is
}

// invitation asks for the token. It stands in the fragment of the link, which
// browsers send to nobody; the page's script sends it in the form.
func (c *console) invitation(w http.ResponseWriter, _ *http.Request) error {
	c.render(w, http.StatusOK, "invitation", invitationPage{})
	return nil
}

// accept shows what a token stands for, and accepts it: for the person who is signed in with
// its address, or with a name and a password. A token that is no longer valid is refused
// before anybody types these.
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
