package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/strictjson"
)

// maxBody is the most that a request may carry (decisions 1.1).
const maxBody = 1 << 20

// readBody reads the whole body, which must arrive in time: a request that is
// larger is refused before more than the limit is read.
func (f *front) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(f.timeouts.body)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	n, err := io.Copy(&body, io.LimitReader(r.Body, maxBody+1))
	if n > maxBody {
		return nil, tooLarge()
	}
	if err != nil {
		refusal := fault.Invalid("", "the body did not arrive whole")
		refusal.Header, refusal.Err = map[string]string{"Connection": "close"}, err
		return nil, refusal
	}
	// Left in place, the deadline would end the request while it is worked on.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return body.Bytes(), nil
}

// tooLarge closes the connection: what else of the body is under way is not
// read.
func tooLarge() error {
	return &fault.Error{
		Code: fault.PayloadTooLarge, Message: "The body is larger than 1 MiB.",
		Header: map[string]string{"Connection": "close"},
	}
}

// setBody puts the checked body in the place of the received one.
func setBody(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
}

// jsonObject is the body as a JSON object that passed the JSON gate; an empty
// one is {}.
func jsonObject(header http.Header, body []byte) ([]byte, error) {
	if len(body) == 0 {
		return []byte("{}"), nil
	}
	if encoding := header.Values("Content-Encoding"); len(encoding) > 1 || len(encoding) == 1 && !strings.EqualFold(encoding[0], "identity") {
		return nil, fault.New(fault.UnsupportedMediaType, "Send the body without a Content-Encoding.")
	}
	types := header.Values("Content-Type")
	if len(types) != 1 || !isJSON(types[0]) {
		return nil, fault.New(fault.UnsupportedMediaType, "Send the body as application/json in UTF-8.")
	}
	return body, strictjson.CheckObject(body)
}

func isJSON(contentType string) bool {
	media, parameters, err := mime.ParseMediaType(contentType)
	charset, given := parameters["charset"]
	return err == nil && media == "application/json" && (!given || strings.EqualFold(charset, "utf-8"))
}

// accepts reports whether an Accept header allows the media type. The most
// specific range that fits decides (RFC 9110, 12.5.1); no header allows all.
func accepts(header []string, media string) bool {
	if len(header) == 0 {
		return true
	}
	kind, _, _ := strings.Cut(media, "/")
	best, allowed := 0, false
	for entry := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, rest, _ := strings.Cut(entry, ";")
		specific := 0
		switch strings.ToLower(strings.TrimSpace(name)) {
		case media:
			specific = 3
		case kind + "/*":
			specific = 2
		case "*/*":
			specific = 1
		}
		if specific > best {
			best, allowed = specific, wanted(rest)
		}
	}
	return allowed || strings.TrimSpace(strings.Join(header, "")) == ""
}

// wanted reports whether the parameters of a media range leave it a weight.
func wanted(parameters string) bool {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && weight > 0
		}
	}
	return true
}

// prefersStrict reports whether a Prefer header asks for handling=strict
// (RFC 7240).
func prefersStrict(header []string) bool {
	for preference := range strings.SplitSeq(strings.Join(header, ","), ",") {
		preference, _, _ = strings.Cut(preference, ";")
		name, value, _ := strings.Cut(preference, "=")
		if strings.EqualFold(strings.TrimSpace(name), "handling") {
			return strings.EqualFold(strings.Trim(strings.TrimSpace(value), `"`), "strict")
		}
	}
	return false
}
