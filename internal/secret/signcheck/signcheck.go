// Package signcheck finds out why a signature is wrong, so that the author of a client gets a hint
// instead of a plain refusal.
//
// It reports what is wrong in the parts of a request, and computes the messages that clients with
// common bugs would sign. It is pure and knows no keys. The one invariant: its result follows from
// the request alone, so it reveals nothing of a key.
package signcheck

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Code is the stable name of a mistake.
type Code string

// The mistakes that are known.
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
	MethodCase: "The method is not upper-case letters. It is signed as it is sent: GET, POST, PUT, DELETE.",

	PathQuery:    "The path was signed without its query. Everything after the host is signed, as it stands on the request line.",
	PathHost:     "The path has the scheme or the host in it. What is signed begins with the slash after the host.",
	PathSlash:    "The path does not begin with a slash.",
	PathEnd:      "The path was signed with a slash at its end and sent without it, or the other way round.",
	PathFragment: "The path has a fragment, which is never sent: what follows # is not signed.",
	PathRaw:      "The path has characters that cannot stand on a request line. Your HTTP library sends them percent-encoded; sign what it sends.",
	PathEncoding: "The path was signed with other percent-encodings, or its query in another order, than it was sent. Build it once, sign that text and send that very text.",
	PathPrefix:   "The path was signed without its beginning, as it follows some base URL. Everything after the host is signed, /v1/sdk included.",
	PathPrefixed: "The path has a prefix before /v1/. A proxy that publishes Weft below that prefix removes it, so the prefix is sent but not signed. Sign the path from /v1/ on.",

	TimeMilliseconds: "The timestamp is in milliseconds. It is whole seconds since 1970, 10 digits long; both the header and the message have it so.",
	TimeMalformed:    "The timestamp is not whole seconds since 1970 in decimal digits, without sign, fraction, blanks or leading zeros.",
	TimeExpired:      "By now the timestamp is more than 30 seconds old, for which a request is refused. If you sent it when it was new, this is no cause.",
	TimeAhead:        "The timestamp is ahead of the server's clock, for which a request is refused. Set your clock by NTP, or round down.",

	BodyLineEnd: "The message was signed with a line end at its end, as echo adds one, or without the one that the body is sent with. Sign just the bytes that are sent: printf %s and echo -n add none.",
	BodyLeftOut: "The message was signed without the body. Its fourth part is the body as it is sent.",
	BodyEmpty:   "The empty body was not signed as the two characters {}. They are signed for every request without a body, also for GET; they are not sent.",
	BodyString:  "What was signed is the body turned into a text by the language, or put into quotation marks, and not its JSON.",

	Separators: "The parts were joined otherwise than by a bar each, without blanks: METHOD|PATH|TIMESTAMP|BODY.",
	Order:      "The parts were signed in another order. It is METHOD|PATH|TIMESTAMP|BODY.",
	Hashed:     "The message was hashed before it was signed. Ed25519 takes the message itself.",
	NotUTF8:    "The message was not encoded as UTF-8.",

	SignatureURL:       "The signature is in the URL-safe alphabet of base64. The standard one is taken, with + and / and with padding.",
	SignatureUnpadded:  "The signature lacks the padding of base64: it ends with two signs of equality and is 88 characters long.",
	SignatureHex:       "The signature is in hexadecimal digits. Standard base64 with padding is taken.",
	SignatureSpace:     "The signature has blanks or line ends in it or around it. base64 -w0 and similar leave them out.",
	SignatureLength:    "The signature is not 64 bytes long, so it is not one of Ed25519. One of 32 bytes is an HMAC or a hash, one of 88 was encoded in base64 twice.",
	SignatureMalformed: "The signature is not standard base64 with padding: 88 characters, without quotation marks and without a prefix.",

	KeyForm: "An API key begins with ws_ and has no blanks. This is something else, such as the id of a key or of a workspace.",
	WrongKey: "No usual mistake gives this signature under this API key. Compare message, byte by byte, with what you signed, " +
		"or send the SHA-256 of that as messageSha256. If they are equal, " + theKey,
	OtherMessage: "messageSha256 is neither the hash of the message nor that of a message which one of the usual mistakes gives. Compare message with yours, byte by byte.",
}

const theKey = "it is the key or the secret: the API key is unknown or was revoked, or the secret is that of another key, or it is read in another way. " +
	"apiSecret is base64 of 48 bytes, a private key in PKCS#8; their last 32 are the seed. The text itself is no key, nor are the first 32 bytes."

// TheKey is WrongKey where the right message is said to have been signed.
func TheKey() Finding {
	return Finding{Code: WrongKey, Text: "By messageSha256 the right message was signed, so " + theKey}
}

// Finding is one thing that is wrong, or may be.
type Finding struct {
	Code    Code
	Certain bool // it stands there; else it fits, as other things may
	Text    string
}

// Found is a finding that is certain.
func (c Code) Found() Finding { return Finding{Code: c, Certain: true, Text: texts[c]} }

// Possible is a finding that is not.
func (c Code) Possible() Finding { return Finding{Code: c, Text: texts[c]} }

// Request is the parts of a message, as the server would see them.
type Request struct {
	Method, Target, Timestamp string
	Body                      []byte
	// Prefix is what the path had before its /v1/, which a proxy may have removed.
	Prefix string
}

// Read takes the parts as somebody wrote them down, and gives those that an HTTP library
// makes of them and sends, with what was wrong.
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

// cutPrefix splits a target before the last /v1/ of its path. The prefix is "" if it has none.
func cutPrefix(target string) (prefix, rest string) {
	path, _, _ := strings.Cut(target, "?")
	at := max(0, strings.LastIndex(path, "/v1/"))
	return target[:at], target[at:]
}

// encode writes what cannot stand on a request line, and the bar, percent-encoded.
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

// Secret says whether a text is an apiSecret, in base64, as PEM, in hexadecimal digits or
// as its bytes, or holds one.
func Secret(text string) bool {
	const bytes, encoded = "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70", "MC4CAQAwBQYDK2Vw" // what each begins with
	return strings.Contains(text, encoded) || strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, bytes) ||
		strings.Contains(strings.ToLower(text), hex.EncodeToString([]byte(bytes)))
}

// ReadKey says what can be seen to be wrong with an API key, whoever's it is.
func ReadKey(text string) []Finding {
	if strings.HasPrefix(text, "ws_") && !strings.ContainsAny(text, " \t\r\n") {
		return nil
	}
	return []Finding{KeyForm.Found()}
}

// ReadSignature reads a signature in whatever form somebody may have written it, and says
// in which. Nothing is read of one that is not 64 bytes long.
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
