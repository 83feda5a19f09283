package person

import "net/http"

// SessionCookie is the name of the cookie that holds the token of a session.
const SessionCookie = "weft_session"

// Cookie keeps a session in a browser for as long as it lasts; without a token it
// takes it away. secure says whether the browser came over https.
func Cookie(token string, secure bool) *http.Cookie {
	cookie := &http.Cookie{
		Name: SessionCookie, Value: token, Path: "/", MaxAge: int(SessionLife.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// InvitationURL is the link of an invitation. The token stands in the fragment,
// which browsers send to nobody. origin is the service as the browser calls it.
func InvitationURL(origin string, made Invited) string {
	return origin + "/settings/invitations#token=" + made.Token
}
