package probe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"
)

// Authority is a certificate authority for receivers of callbacks.
type Authority struct {
	Pool        *x509.CertPool
	certificate tls.Certificate
}

// NewAuthority creates an authority and a server certificate for 127.0.0.1, localhost
// and the given names or addresses.
func NewAuthority(hosts ...string) (*Authority, error) {
	root, key, err := newRoot(24 * time.Hour)
	if err != nil {
		return nil, err
	}
	return issue(root, key, hosts)
}

// keptFor is how long an authority in a file is valid.
const keptFor = 10 * 365 * 24 * time.Hour

// ReadAuthority is like NewAuthority, but keeps the authority in files. The certificate is in the
// given file, and the key is in a file with .key appended to that name. ReadAuthority creates
// missing files. In this case, created is true, and no deployment can trust the authority yet.
func ReadAuthority(path string, hosts ...string) (a *Authority, created bool, err error) {
	pair, err := tls.LoadX509KeyPair(path, path+".key")
	if errors.Is(err, fs.ErrNotExist) {
		created = true
		if err = keepRoot(path); err == nil {
			pair, err = tls.LoadX509KeyPair(path, path+".key")
		}
	}
	if err != nil {
		return nil, created, fmt.Errorf("authority %s: %w", path, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, false, fmt.Errorf("authority %s: this program did not create it", path)
	}
	a, err = issue(pair.Leaf, key, hosts)
	return a, created, err
}

// OwnCertificate loads a server certificate with its chain, which the deployment already trusts.
func OwnCertificate(certificate, key string) (*Authority, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", certificate, err)
	}
	return &Authority{certificate: pair}, nil
}

// keepRoot writes a new authority. It writes the key first, so that no certificate exists without its key.
func keepRoot(path string) error {
	root, key, err := newRoot(keptFor)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}), 0o644) //nolint:gosec // a certificate is public
}

func newRoot(length time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "weft conform"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(length),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make the authority: %w", err)
	}
	root, err = x509.ParseCertificate(der)
	return root, key, err
}

// issue creates the server certificate.
func issue(root *x509.Certificate, rootKey *ecdsa.PrivateKey, hosts []string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	server := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else if host != "" {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, server, root, &key.PublicKey, rootKey)
	if err != nil {
		return nil, fmt.Errorf("make a receiver's certificate: %w", err)
	}
	a := &Authority{Pool: x509.NewCertPool(), certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
	a.Pool.AddCert(root)
	return a, nil
}
