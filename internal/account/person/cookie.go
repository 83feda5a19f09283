package person

import "net/http"

// The names of the cookie that holds the token of a session. A browser takes the
// one with the prefix from this very host over https only, so that neither another
// host of the domain nor a page over plain http can plant one.
const (
	plainCookie  = "weft_session"
	secureCookie = "__Host-weft_session"
)

func cookieName(secure bool) string {
	if secure {
		return secureCookie
	}
	return plainCookie
}

// Cookie keeps a session in a browser for as long as it lasts; without a token it
// takes it away. secure says whether the browser came over https.
func Cookie(token string, secure bool) *http.Cookie {
	cookie := &http.Cookie{
		Name: cookieName(secure), Value: token, Path: "/", MaxAge: int(SessionLife.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// CookieToken is the token in the cookie that a request carries, "" for none.
func CookieToken(r *http.Request, secure bool) string {
	cookie, err := r.Cookie(cookieName(secure))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// InvitationURL is the link of an invitation. The token stands in the fragment,
// which browsers send to nobody. origin is the service as the browser calls it.
func InvitationURL(origin string, made Invited) string { return invitationURL(origin, made.Token) }

func invitationURL(origin, token string) string {
	return origin + "/settings/invitations#token=" + token
}
