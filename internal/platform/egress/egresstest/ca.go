// Package egresstest provides the peers for tests of outgoing connections: a certificate authority,
// TLS and raw receivers on loopback, and a name server whose answers the test chooses.
//
// Only tests import it, and it opens sockets on loopback only.
package egresstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// CA is a certificate authority for one test.
type CA struct {
	Pool        *x509.CertPool
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewCA creates an authority. Its Pool trusts only this authority.
func NewCA(t testing.TB) *CA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test authority"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return &CA{Pool: pool, certificate: certificate, key: key}
}

// Issue creates a server certificate for the given names and addresses, valid until the given
// time.
func (c *CA) Issue(t testing.TB, until time.Time, hosts ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    until.Add(-2 * time.Hour),
		NotAfter:     until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.certificate, &key.PublicKey, c.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Config returns a server's TLS configuration with a valid certificate for hosts.
func (c *CA) Config(t testing.TB, hosts ...string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.Issue(t, time.Now().Add(time.Hour), hosts...)}}
}

// Server starts an HTTPS receiver on 127.0.0.1 with a valid certificate for that address,
// localhost and the given names. It is stopped when the test ends.
func (c *CA) Server(t testing.TB, handler http.Handler, hosts ...string) *httptest.Server {
	t.Helper()
	return Serve(t, handler, c.Config(t, append([]string{"127.0.0.1", "localhost"}, hosts...)...))
}

// Serve starts an HTTPS receiver with any TLS configuration.
func Serve(t testing.TB, handler http.Handler, config *tls.Config) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = config
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// Raw starts a TLS receiver on 127.0.0.1 that responds with whatever serve writes. A connection
// is closed when serve returns, or when the test ends.
func (c *CA) Raw(t testing.TB, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", c.Config(t, "127.0.0.1", "localhost"))
	if err != nil {
		t.Fatal(err)
	}
	open(t, listener, serve)
	return listener.Addr().String()
}
