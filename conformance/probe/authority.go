package probe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Authority is a certificate authority for receivers on loopback.
type Authority struct {
	Pool        *x509.CertPool
	certificate tls.Certificate
}

// NewAuthority makes an authority and its one server certificate, for 127.0.0.1
// and localhost.
func NewAuthority() (*Authority, error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "conformance"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	if err != nil {
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	if root, err = x509.ParseCertificate(rootDER); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, root, &key.PublicKey, rootKey)
	if err != nil {
		return nil, fmt.Errorf("make a receiver's certificate: %w", err)
	}
	a := &Authority{Pool: x509.NewCertPool(), certificate: tls.Certificate{Certificate: [][]byte{serverDER}, PrivateKey: key}}
	a.Pool.AddCert(root)
	return a, nil
}
