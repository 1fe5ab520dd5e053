package tier_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestTLS: with the files of the URL, or the options, the client and the server know each other; without, the error is of
// one class that says what to look at, nothing was sent, and trying again is of no use.
func TestTLS(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			a := tiertest.NewAuthority(t)
			s := tiertest.NewTLS(t, kind, a)
			cert, key := a.Issue("client")
			stranger := tiertest.NewAuthority(t)
			strangerCert, strangerKey := stranger.Issue("client")
			user := tiertest.NewUser(t, []*tiertest.Server{s.Server}, "~*", "+@all")
			pair, err := tls.LoadX509KeyPair(cert, key)
			require.NoError(t, err)
			fine := s.With("ca", a.CA, "cert", cert, "key", key)
			tests := []struct {
				name string
				url  string
				opts tier.Options
				want error
			}{
				{name: "files", url: fine},
				{name: "files and a user", url: user.At(address(fine))},
				{name: "options", url: s.With("ca", a.CA), opts: tier.Options{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}}},
				{name: "host not in the certificate", url: strings.Replace(fine, "127.0.0.1", "localhost", 1), want: tier.ErrTLS},
				{name: "name of the options", url: fine, opts: tier.Options{TLS: &tls.Config{ServerName: "other"}}, want: tier.ErrTLS},
				{name: "authority unknown", url: s.With("cert", cert, "key", key), want: tier.ErrTLS},
				{name: "another authority", url: s.With("ca", stranger.CA, "cert", cert, "key", key), want: tier.ErrTLS},
				{name: "no certificate", url: s.With("ca", a.CA), want: tier.ErrTLS},
				{name: "a stranger's certificate", url: s.With("ca", a.CA, "cert", strangerCert, "key", strangerKey), want: tier.ErrTLS},
			}
			for _, tt := range tests {
				t.Run(tt.name, func(t *testing.T) {
					c, err := tier.Dial(t.Context(), tt.url, tt.opts)
					if tt.want != nil {
						require.ErrorIs(t, err, tt.want)
						require.False(t, tier.OutcomeUnknown(err))
						require.Equal(t, tier.Surface, tier.Classify(err).Reaction)
						return
					}
					require.NoError(t, err)
					defer c.Close()
					_, err = c.Do(t.Context(), "k", set(c, "k"))
					require.NoError(t, err)
				})
			}
		})
	}
}

// TestTLSAtOneEnd: where one end speaks TLS and the other does not, the error asks for it.
func TestTLSAtOneEnd(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.NewTLS(t, kind, tiertest.NewAuthority(t))
			plain := tiertest.NewProxy(t, tiertest.Shared(t, kind)).URL()
			for _, url := range []string{
				strings.Replace(strings.Split(s.With(), "?")[0], "valkeys://", "valkey://", 1),
				strings.Replace(plain, "valkey://", "valkeys://", 1),
			} {
				_, err := tier.Dial(t.Context(), url, tier.Options{CallTimeout: time.Second})
				require.ErrorContains(t, err, "is TLS on at both ends? (valkey:// or valkeys://)", url)
				require.False(t, tier.OutcomeUnknown(err))
			}
			_, err := tier.Dial(t.Context(), "valkey://127.0.0.1:1", tier.Options{})
			require.NotContains(t, err.Error(), "both ends", "nobody listens")
		})
	}
}

// address is a URL as a server that has it.
type address string

func (a address) URL() string { return string(a) }

// TestTLSFiles: what is wrong with a file is said, with the parameter that named it, and nothing of the URL.
func TestTLSFiles(t *testing.T) {
	a := tiertest.NewAuthority(t)
	cert, key := a.Issue("client")
	_, otherKey := a.Issue("other")
	text := filepath.Join(t.TempDir(), "secret.txt")
	require.NoError(t, os.WriteFile(text, []byte("no certificate"), 0o600))
	tests := []struct{ params, want string }{
		{"ca=/nowhere/secret.crt", "ca cannot be read: no such file"},
		{"ca=" + filepath.Dir(text), "ca cannot be read: is a directory"},
		{"ca=" + text, "ca holds no certificate"},
		{"cert=/nowhere/secret.crt&key=" + key, "cert cannot be read"},
		{"cert=" + cert + "&key=/nowhere/secret", "key cannot be read"},
		{"cert=" + cert + "&key=" + otherKey, "no pair"},
		{"cert=" + text + "&key=" + key, "no pair"},
		{"cert=" + cert, "go together"},
		{"key=" + key, "go together"},
	}
	for _, tt := range tests {
		_, err := tier.ParseURL("valkeys://bob:secret@h?" + tt.params)
		require.ErrorIs(t, err, tier.ErrURL, tt.params)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := tier.Dial(t.Context(), "valkey://h", tier.Options{TLS: &tls.Config{}})
	require.ErrorIs(t, err, tier.ErrURL, "it would be dropped")
	require.ErrorContains(t, err, "valkeys://")
}
