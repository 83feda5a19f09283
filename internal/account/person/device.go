package person

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/weft-automation/weft/internal/secret/seal"
)

// DeviceLife is how long a browser keeps the cookie of a device.
const DeviceLife = 365 * 24 * time.Hour

// The names of the cookie that marks a device on which somebody signed in before: one name for
// http and one for https, as for the session cookie.
const (
	plainDevice  = "weft_device"
	secureDevice = "__Host-weft_device"
)

func deviceName(secure bool) string {
	if secure {
		return secureDevice
	}
	return plainDevice
}

// DeviceCookie returns the value of the device cookie of a request, or "".
func DeviceCookie(r *http.Request, secure bool) string {
	cookie, err := r.Cookie(deviceName(secure))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// SetCookies sets the cookies of a new session: the session cookie and, if the session has one, the device
// cookie.
func (s Session) SetCookies(w http.ResponseWriter, secure bool) {
	http.SetCookie(w, Cookie(s.Token, secure))
	if s.Device == "" {
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: deviceName(secure), Value: s.Device, Path: "/", MaxAge: int(DeviceLife.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	})
}

// deviceAAD binds a device cookie to one account, so that the cookie isn't valid for other
// accounts.
func deviceAAD(email string) seal.AAD { return seal.AAD{Table: "users", Row: email, Field: "device"} }

// newDevice returns the device cookie for a device on which the owner of the address signed in, or
// "" if the service has no keys. The cookie isn't stored: its seal proves that the service issued
// it.
func (s *Service) newDevice(email string) string {
	if s.keyring == nil {
		return ""
	}
	sealed, err := s.keyring.Seal(random(16), deviceAAD(email))
	if err != nil {
		return "" // the session works without a device cookie
	}
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// device returns the name of the known device that sent a cookie, or "" if the cookie isn't
// valid for this account.
func (s *Service) device(email, cookie string) string {
	if s.keyring == nil || cookie == "" || len(cookie) > 1024 {
		return ""
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return ""
	}
	nonce, err := s.keyring.Open(sealed, deviceAAD(email))
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(nonce)
	return hex.EncodeToString(sum[:])
}
