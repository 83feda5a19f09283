// Package signcheck finds out why a signature is wrong, so that the author of a client gets a hint
// instead of a plain rejection.
//
// It reports mistakes in the parts of a request, and computes the messages that clients with common
// bugs would sign. Its result depends on the request only, so it reveals nothing about a key.
package signcheck

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Code is the stable name of a mistake.
type Code string

// The known mistakes.
const (
	MethodCase Code = "method_not_upper_case"

	PathQuery    Code = "path_without_query"
	PathHost     Code = "path_with_host"
	PathSlash    Code = "path_without_slash"
	PathEnd      Code = "path_with_other_end"
	PathFragment Code = "path_with_fragment"
	PathRaw      Code = "path_not_encoded"
	PathEncoding Code = "path_encoded_otherwise"
	PathPrefix   Code = "path_without_prefix"
	PathPrefixed Code = "path_with_prefix"

	TimeMilliseconds Code = "timestamp_in_milliseconds"
	TimeMalformed    Code = "timestamp_malformed"
	TimeExpired      Code = "timestamp_expired"
	TimeAhead        Code = "timestamp_in_future"

	BodySerialized Code = "body_serialized_again"
	BodyEscapes    Code = "body_escapes"
	BodyLineEnd    Code = "body_with_line_end"
	BodyLeftOut    Code = "body_left_out"
	BodyEmpty      Code = "empty_body_not_braces"
	BodyString     Code = "body_as_string"

	Separators Code = "other_separators"
	Order      Code = "parts_in_other_order"
	Hashed     Code = "message_hashed"
	NotUTF8    Code = "message_not_utf8"

	SignatureURL       Code = "signature_base64url"
	SignatureUnpadded  Code = "signature_unpadded"
	SignatureHex       Code = "signature_hex"
	SignatureSpace     Code = "signature_with_white_space"
	SignatureLength    Code = "signature_not_64_bytes"
	SignatureMalformed Code = "signature_malformed"

	KeyForm      Code = "api_key_malformed"
	WrongKey     Code = "wrong_key"
	OtherMessage Code = "other_message"
)

var texts = map[Code]string{
	MethodCase: "The method is not in upper-case letters. Sign it as it is sent: GET, POST, PUT, DELETE.",

	PathQuery:    "The path was signed without its query. Everything after the host is signed, as it stands on the request line.",
	PathHost:     "The path contains the scheme or the host. What is signed starts with the slash after the host.",
	PathSlash:    "The path does not start with a slash.",
	PathEnd:      "The path was signed with a slash at its end and sent without it, or the other way round.",
	PathFragment: "The path has a fragment, which is never sent. Don't sign what follows #.",
	PathRaw:      "The path has characters that are not allowed on a request line. Your HTTP library sends them percent-encoded. Sign what it sends.",
	PathEncoding: "The path was signed with other percent-encodings, or its query in another order, than it was sent. Build it once, sign that text and send that very text.",
	PathPrefix:   "The path was signed without its start, relative to some base URL. Everything after the host is signed, including /v1/sdk.",
	PathPrefixed: "The path has a prefix before /v1/. A proxy that publishes Weft below that prefix removes it, so the prefix is sent but not signed. Sign the path from /v1/ on.",

	TimeMilliseconds: "The timestamp is in milliseconds. It must be in whole seconds since 1970, 10 digits long, both in the header and in the message.",
	TimeMalformed:    "The timestamp is not in whole seconds since 1970 in decimal digits, without sign, fraction, blanks or leading zeros.",
	TimeExpired:      "The timestamp is now more than 30 seconds old. Such requests are refused. If it was new when you sent the request, this is not the cause.",
	TimeAhead:        "The timestamp is ahead of the server's clock. Such requests are refused. Set your clock by NTP, or round down.",

	BodyLineEnd: "The message was signed with a line end that the sent body doesn't have (echo adds one), or without one that it has. Sign exactly the bytes that are sent. printf %s and echo -n add no line end.",
	BodyLeftOut: "The message was signed without the body. Its fourth part is the body as it is sent.",
	BodyEmpty:   "The empty body was not signed as the two characters {}. Sign {} for every request without a body, also for GET, but don't send it.",
	BodyString:  "The signed body is a string conversion of your programming language, or is in quotation marks. Sign the JSON that is sent.",

	Separators: "The parts were not joined with a bar each, without blanks: METHOD|PATH|TIMESTAMP|BODY.",
	Order:      "The parts were signed in another order. The right one is METHOD|PATH|TIMESTAMP|BODY.",
	Hashed:     "The message was hashed before it was signed. Ed25519 needs the message itself.",
	NotUTF8:    "The message was not encoded as UTF-8.",

	SignatureURL:       "The signature is in the URL-safe alphabet of base64. Use the standard alphabet, with + and / and with padding.",
	SignatureUnpadded:  "The signature lacks the padding of base64. It must end with == and be 88 characters long.",
	SignatureHex:       "The signature is in hexadecimal digits. Use standard base64 with padding.",
	SignatureSpace:     "The signature contains blanks or line ends, or is surrounded by them. Use base64 -w0 or similar.",
	SignatureLength:    "The signature is not 64 bytes long, so it is not an Ed25519 signature. A signature of 32 bytes is an HMAC or a hash. One of 88 bytes was encoded in base64 twice.",
	SignatureMalformed: "The signature is not standard base64 with padding: 88 characters, without quotation marks and without a prefix.",

	KeyForm: "An API key starts with ws_ and has no blanks. This is something else, such as the ID of a key or of a workspace.",
	WrongKey: "No usual mistake explains this signature under this API key. Compare message, byte by byte, with what you signed, " +
		"or send the SHA-256 of that as messageSha256. If they are equal, " + theKey,
	OtherMessage: "messageSha256 is neither the hash of the message, nor that of a message with one of the usual mistakes. Compare message with yours, byte by byte.",
}

const theKey = "the API key or the secret is wrong: the API key is unknown or was revoked, or the secret belongs to another key, or your program decodes it wrongly. " +
	"apiSecret is base64 of 48 bytes, a private key in PKCS#8. Their last 32 bytes are the seed. The base64 itself is not a key, nor are the first 32 bytes."

// TheKey returns WrongKey for a signature over the right message.
func TheKey() Finding {
	return Finding{Code: WrongKey, Text: "According to messageSha256 the right message was signed, so " + theKey}
}

// Finding is a mistake, or a possible mistake.
type Finding struct {
	Code    Code
	Certain bool // false if something else may also explain the signature
	Text    string
}

// Found returns a certain finding.
func (c Code) Found() Finding { return Finding{Code: c, Certain: true, Text: texts[c]} }

// Possible returns a finding that isn't certain.
func (c Code) Possible() Finding { return Finding{Code: c, Text: texts[c]} }

// Request holds the parts of a message, as the server would see them.
type Request struct {
	Method, Target, Timestamp string
	Body                      []byte
	// Prefix is the part of the path before /v1/, which a proxy may have removed.
	Prefix string
}

// Read corrects the parts of a request to the parts that an HTTP library would send. It returns the
// corrected parts and the mistakes.
func Read(method, path, timestamp string, body []byte) (Request, []Finding) {
	var found []Finding
	r := Request{Method: strings.ToUpper(method), Timestamp: timestamp, Body: body}
	if strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		found = append(found, MethodCase.Found())
	}
	target, wrong := readPath(path)
	r.Prefix, r.Target = cutPrefix(target)
	for _, code := range wrong {
		found = append(found, code.Found())
	}
	switch digits := strings.Trim(timestamp, "0123456789") == ""; {
	case digits && len(timestamp) == len("1795257600000") && timestamp[0] != '0':
		found = append(found, TimeMilliseconds.Found())
	case !digits, len(timestamp) > 18, len(timestamp) > 1 && timestamp[0] == '0':
		found = append(found, TimeMalformed.Found())
	}
	return r, found
}

func readPath(path string) (target string, wrong []Code) {
	if scheme, rest, ok := strings.Cut(path, "://"); ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) {
		host := strings.IndexAny(rest, "/?#")
		if host < 0 {
			host = len(rest)
		}
		wrong, path = append(wrong, PathHost), rest[host:]
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
	}
	if before, _, ok := strings.Cut(path, "#"); ok {
		wrong, path = append(wrong, PathFragment), before
	}
	if !strings.HasPrefix(path, "/") {
		wrong, path = append(wrong, PathSlash), "/"+path
	}
	encoded := encode(path)
	if encoded != path {
		wrong = append(wrong, PathRaw)
	}
	return encoded, wrong
}

// cutPrefix splits a target before the last /v1/ of its path. The prefix is "" if the target has
// no prefix.
func cutPrefix(target string) (prefix, rest string) {
	path, _, _ := strings.Cut(target, "?")
	at := max(0, strings.LastIndex(path, "/v1/"))
	return target[:at], target[at:]
}

// encode percent-encodes the bar and the characters that aren't allowed on a request line.
func encode(path string) string {
	var out strings.Builder
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c > '~' || c == '|' {
			out.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// Secret reports whether a string is or contains an apiSecret: in base64, as PEM, in hexadecimal
// digits or as bytes.
func Secret(text string) bool {
	const bytes, encoded = "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70", "MC4CAQAwBQYDK2Vw" // the prefix of every secret
	return strings.Contains(text, encoded) || strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, bytes) ||
		strings.Contains(strings.ToLower(text), hex.EncodeToString([]byte(bytes)))
}

// ReadKey returns the mistakes that are visible in an API key itself.
func ReadKey(text string) []Finding {
	if strings.HasPrefix(text, "ws_") && !strings.ContainsAny(text, " \t\r\n") {
		return nil
	}
	return []Finding{KeyForm.Found()}
}

// ReadSignature decodes a signature in any form, and returns the mistakes in its form. It returns
// no bytes for a signature whose length isn't 64 bytes.
func ReadSignature(text string) (sig []byte, found []Finding) {
	const size = 64
	plain := strings.Join(strings.Fields(text), "")
	if plain != text {
		found = append(found, SignatureSpace.Found())
	}
	if sig, err := hex.DecodeString(plain); err == nil && len(sig) == size {
		return sig, append(found, SignatureHex.Found())
	}
	standard := strings.NewReplacer("-", "+", "_", "/").Replace(plain)
	if standard != plain {
		found = append(found, SignatureURL.Found())
	}
	bare := strings.TrimRight(standard, "=")
	sig, err := base64.RawStdEncoding.Strict().DecodeString(bare)
	switch padded := base64.StdEncoding.EncodeToString(sig); {
	case err != nil:
		return nil, append(found, SignatureMalformed.Found())
	case len(sig) != size:
		return nil, append(found, SignatureLength.Found())
	case standard == bare:
		found = append(found, SignatureUnpadded.Found())
	case standard != padded:
		found = append(found, SignatureMalformed.Found())
	}
	return sig, found
}
