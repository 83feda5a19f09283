package person

import "net/http"

// The names of the cookie that holds the token of a session. Browsers accept the __Host- prefix
// only from this host over https, so neither another host of the domain nor a page over plain
// http can set that cookie.
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

// Cookie returns the cookie of a session. An empty token deletes the cookie. secure says whether
// the browser uses https.
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

// CookieToken returns the token in the cookie of a request, or "".
func CookieToken(r *http.Request, secure bool) string {
	cookie, err := r.Cookie(cookieName(secure))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// InvitationURL returns the link of an invitation. The token is in the fragment, which browsers
// don't send to servers. origin is the origin of the service as the browser calls it.
func InvitationURL(origin string, made Invited) string { return invitationURL(origin, made.Token) }

func invitationURL(origin, token string) string {
	return origin + "/settings/invitations#token=" + token
}
