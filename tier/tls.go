package tier

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
)

// tlsConfig is base with the files that a URL names: ca, whose certificates are trusted in place of the system's; cert and
// key, with which the client shows who it is. A server's certificate has to hold the host by which it is dialed.
func tlsConfig(base *tls.Config, params url.Values) (*tls.Config, error) {
	cfg := base.Clone()
	if cfg == nil {
		cfg = &tls.Config{}
	}
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	if path := params.Get("ca"); path != "" {
		pem, err := readFile("ca", path)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: the file of ca holds no certificate in PEM form", ErrURL)
		}
	}
	if !params.Has("cert") {
		return cfg, nil
	}
	cert, err := readFile("cert", params.Get("cert"))
	if err != nil {
		return nil, err
	}
	key, err := readFile("key", params.Get("key"))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%w: the files of cert and key are no pair in PEM form: %w", ErrURL, err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// readFile leaves the path out of the error, as all of ErrURL leave out the URL.
func readFile(param, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	var reason *fs.PathError
	if errors.As(err, &reason) {
		err = reason.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the file of %s cannot be read: %w", ErrURL, param, err)
	}
	return text, nil
}
