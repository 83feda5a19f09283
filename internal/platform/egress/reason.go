package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/textproto"
	"strings"
)

// The reasons of the classes tls, connection and malformed. They are part of the API.
const (
	ReasonCertificateName    = "certificate_name"
	ReasonCertificateExpired = "certificate_expired"
	ReasonCertificateIssuer  = "certificate_issuer"
	ReasonCertificate        = "certificate_invalid"
	ReasonClientCertificate  = "client_certificate"
	ReasonPlainHTTP          = "plain_http"
	ReasonNotTLS             = "not_tls"
	ReasonTLSVersion         = "tls_version"
	ReasonTLSName            = "tls_name"
	ReasonTLSAlert           = "tls_alert"
	ReasonTLSProtocol        = "tls_protocol"

	ReasonHandshakeClosed = "handshake_closed"
	ReasonUnanswered      = "unanswered"
	ReasonCutOff          = "cut_off"
	ReasonNotHTTP         = "not_http"
	ReasonHeader          = "header"
	ReasonLength          = "content_length"
	ReasonTransferCoding  = "transfer_encoding"
	ReasonChunk           = "chunk"
	ReasonOther           = "other"

	ReasonContentCoding = "content_encoding"
	ReasonGzip          = "gzip"
	ReasonLocation      = "location"
	ReasonCharset       = "charset"
	ReasonMapping       = "output_mapping"
	ReasonStorage       = "storage"
	ReasonJSONRPC       = "json_rpc"
)

// words say what a server did, so that they follow its name. No word is the server's.
var words = map[string]string{
	ReasonCertificateName:    "has a TLS certificate for another name",
	ReasonCertificateExpired: "has a TLS certificate that has expired or is not valid yet",
	ReasonCertificateIssuer:  "has a TLS certificate of an unknown issuer",
	ReasonCertificate:        "has a TLS certificate that cannot be verified",
	ReasonClientCertificate:  "requires a client certificate",
	ReasonPlainHTTP:          "answers in plain HTTP on this port instead of TLS",
	ReasonNotTLS:             "does not use TLS on this port",
	ReasonTLSVersion:         "does not support TLS 1.2 or later",
	ReasonTLSName:            "does not know this name",
	ReasonTLSAlert:           "rejected the TLS connection",
	ReasonTLSProtocol:        "violated the TLS protocol",

	ReasonHandshakeClosed: "closed the connection during the TLS handshake",
	ReasonUnanswered:      "closed the connection without an answer",
	ReasonCutOff:          "closed the connection in the middle of its answer",
	ReasonNotHTTP:         "answered with a status line that is not HTTP",
	ReasonHeader:          "answered with a malformed header",
	ReasonLength:          "answered with an invalid Content-Length, or with several",
	ReasonTransferCoding:  "answered with an unsupported Transfer-Encoding",
	ReasonChunk:           "answered with a malformed chunk",
	ReasonOther:           "could not be reached: the connection failed",

	ReasonContentCoding: "has a Content-Encoding other than gzip",
	ReasonGzip:          "is not valid gzip, although its Content-Encoding is gzip",
	ReasonLocation:      "redirects to an address that is not a URL",
	ReasonCharset:       "has a character set that is not supported",
	ReasonMapping:       "does not have what outputMapping selects",
	ReasonStorage:       "cannot be stored",
	ReasonJSONRPC:       "is not JSON-RPC 2.0",
}

// Words returns what a reason means. The subject of the words is the server, or its response for the
// reasons of the class malformed except location.
func Words(reason string) string { return words[reason] }

// Reason returns the reason of a failure of the class tls, connection or malformed, and "" for another
// class. begun reports whether a byte of a response arrived.
func Reason(err error, begun bool) string {
	switch Class(err) {
	case ClassTLS:
		return reasonOfTLS(err)
	case ClassConnection:
		return reasonOfConnection(err, begun)
	case ClassMalformed:
		if coding, ok := errors.AsType[*CodingError](err); ok {
			return coding.reason
		}
		return ReasonLocation
	}
	return ""
}

func reasonOfTLS(err error) string {
	if e, ok := errors.AsType[*alertError](err); ok {
		return reasonOfAlert(e.alert, e.demanded)
	}
	handshake, _ := errors.AsType[*handshakeError](err)
	if alert := alertOf(err); alert != "" {
		return reasonOfAlert(alert, handshake.demanded)
	}
	invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
	record, foreign := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case is[x509.HostnameError](err):
		return ReasonCertificateName
	case is[x509.CertificateInvalidError](err) && invalid.Reason == x509.Expired:
		return ReasonCertificateExpired
	case is[x509.UnknownAuthorityError](err):
		return ReasonCertificateIssuer
	case is[*tls.CertificateVerificationError](err), is[x509.CertificateInvalidError](err):
		return ReasonCertificate
	case foreign && string(record.RecordHeader[:]) == "HTTP/":
		return ReasonPlainHTTP
	case foreign:
		return ReasonNotTLS
	case strings.Contains(root(err).Error(), "unsupported protocol version"): // package tls has no type for it
		return ReasonTLSVersion
	}
	return ReasonTLSProtocol
}

// reasonOfAlert returns the reason of an alert. A server that requested a client certificate rejects
// the connection because it got none: before TLS 1.3, each server uses another alert for that.
func reasonOfAlert(alert string, demanded bool) string {
	switch {
	case alert == alertProtocolVersion:
		return ReasonTLSVersion
	case alert == alertUnrecognizedName:
		return ReasonTLSName
	case demanded, alert == alertCertificateRequired:
		return ReasonClientCertificate
	}
	return ReasonTLSAlert
}

// untyped are the beginnings of the errors with which net/http reports a malformed response. It has no
// types for them. Their texts continue with what the server sent.
var untyped = []struct{ text, reason string }{
	{"malformed HTTP", ReasonNotHTTP},
	{"http: message cannot contain multiple Content-Length headers", ReasonLength},
	{"bad Content-Length", ReasonLength},
	{"invalid empty Content-Length", ReasonLength},
	{"unsupported transfer encoding", ReasonTransferCoding},
	{"too many transfer encodings", ReasonTransferCoding},
	{"malformed chunked encoding", ReasonChunk},
	{"invalid byte in chunk length", ReasonChunk},
	{"empty hex number for chunk length", ReasonChunk},
	{"http chunk length too large", ReasonChunk},
	{"chunked line ends with bare LF", ReasonChunk},
	{"chunked encoding contains too much non-data", ReasonChunk},
	{"invalid CR in chunked line", ReasonChunk},
	{"header line too long", ReasonChunk},
	{"http: unexpected EOF reading trailer", ReasonCutOff},
	{"http: suspiciously long trailer", ReasonHeader},
	{"invalid Trailer key", ReasonHeader},
	{"bad trailer key", ReasonHeader},
}

func reasonOfConnection(err error, begun bool) string {
	if is[*handshakeError](err) {
		return ReasonHandshakeClosed
	}
	if !begun {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.HasSuffix(root(err).Error(), "server closed idle connection") {
			return ReasonUnanswered
		}
		return ReasonOther
	}
	if is[textproto.ProtocolError](err) {
		return ReasonHeader
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ReasonCutOff
	}
	text := root(err).Error()
	for _, u := range untyped {
		if strings.HasPrefix(text, u.text) {
			return u.reason
		}
	}
	return ReasonOther
}

// root returns the innermost error.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
