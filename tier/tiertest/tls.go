package tiertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/echomq/pipeline/tier/embedded"
)

// Authority signs certificates for one test. CA is the path of its own, in PEM form.
type Authority struct {
	CA string

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes one that nobody trusts yet.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.CA, _ = a.sign("ca", template)
	return a
}

// Issue signs a certificate of a server for hosts, names or addresses, or of a
// client for none; it returns the paths of certificate and key.
func (a *Authority) Issue(name string, hosts ...string) (cert, key string) {
	a.t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return a.sign(name, template)
}

func (a *Authority) sign(name string, template *x509.Certificate) (certPath, keyPath string) {
	a.t.Helper()
	check := func(err error) {
		if err != nil {
			a.t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	check(err)
	if a.cert == nil {
		a.cert, a.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	check(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	write := func(ending, kind string, bytes []byte) string {
		path := filepath.Join(a.dir, name+ending)
		check(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	return write(".crt", "CERTIFICATE", der), write(".key", "PRIVATE KEY", secret)
}

// TLS is a server that speaks it at Addr, and takes only clients that show a
// certificate of its authority.
type TLS struct {
	*Server
	Addr string
}

// NewTLS starts one, with a certificate for 127.0.0.1.
func NewTLS(t testing.TB, k Kind, a *Authority) *TLS {
	t.Helper()
	cert, key := a.Issue("server", "127.0.0.1")
	const tries = 4 // the port may be taken by another before the server has it
	var err error
	for range tries {
		var port string
		if port, err = freePort(); err != nil {
			break
		}
		var s *Server
		if s, err = launch(k, embedded.Config{Args: []string{
			"--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.CA, "--tls-auth-clients", "yes",
		}}); err == nil {
			s.private = true
			t.Cleanup(func() { end(s) })
			return &TLS{s, net.JoinHostPort("127.0.0.1", port)}
		}
	}
	t.Fatal(err)
	return nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// With is the URL of the server with parameters, in pairs of name and value.
func (s *TLS) With(params ...string) string {
	q := url.Values{}
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	return (&url.URL{Scheme: "valkeys", Host: s.Addr, RawQuery: q.Encode()}).String()
}
