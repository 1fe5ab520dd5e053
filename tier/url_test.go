package tier_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

// TestParseURL: what each form of URL means.
func TestParseURL(t *testing.T) {
	type want struct {
		addr       []string
		user, pass string
		db         int
		tls        bool
		sentinel   [3]string // name, user, password
	}
	tests := []struct {
		url  string
		want want
	}{
		{"valkey://h", want{addr: []string{"h:6379"}}},
		{"redis://h:1", want{addr: []string{"h:1"}}},
		{"valkey://", want{addr: []string{"localhost:6379"}}},
		{"valkey://:7000", want{addr: []string{"localhost:7000"}}},
		{"rediss://h", want{addr: []string{"h:6379"}, tls: true}},
		{"valkeys://h", want{addr: []string{"h:6379"}, tls: true}},
		{"valkey://h:6379/", want{addr: []string{"h:6379"}}},
		{"valkey://h/?db=4", want{addr: []string{"h:6379"}, db: 4}},
		{"valkey://h/3", want{addr: []string{"h:6379"}, db: 3}},
		{"valkey://h?db=4", want{addr: []string{"h:6379"}, db: 4}},
		{"valkey://bob:pw@h", want{addr: []string{"h:6379"}, user: "bob", pass: "pw"}},
		{"valkey://:pw@h", want{addr: []string{"h:6379"}, pass: "pw"}},
		{"valkey://bob:p%40%2F%3A%3F%23%25@h:1", want{addr: []string{"h:1"}, user: "bob", pass: "p@/:?#%"}},
		{"valkey://a,b:2,c", want{addr: []string{"a:6379", "b:2", "c:6379"}}},
		{"valkey://bob:p,w@a:1,b:2/0", want{addr: []string{"a:1", "b:2"}, user: "bob", pass: "p,w"}},
		{"valkey://[::1]:1", want{addr: []string{"[::1]:1"}}},
		{"valkey://[::1]", want{addr: []string{"[::1]:6379"}}},
		{"valkey://[::1]:1,[::2]:2,[::3]", want{addr: []string{"[::1]:1", "[::2]:2", "[::3]:6379"}}},
		{"valkey://a,b:2?sentinel=m", want{addr: []string{"a:26379", "b:2"}, sentinel: [3]string{"m"}}},
		{"valkeys://u:p@a/3?sentinel=m&sentinel-user=s&sentinel-password=t", want{addr: []string{"a:26379"}, user: "u", pass: "p", db: 3, tls: true, sentinel: [3]string{"m", "s", "t"}}},
		{"valkey://?sentinel=m", want{addr: []string{"localhost:26379"}, sentinel: [3]string{"m"}}},
		{"unix:///tmp/a.sock", want{addr: []string{"/tmp/a.sock"}}},
		{"unix:///tmp/a,b?db=2", want{addr: []string{"/tmp/a,b"}, db: 2}},
		{"unix://bob:pw@/tmp/a", want{addr: []string{"/tmp/a"}, user: "bob", pass: "pw"}},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			o, err := tier.ParseURL(tt.url)
			require.NoError(t, err)
			require.Equal(t, tt.want, want{o.InitAddress, o.Username, o.Password, o.SelectDB, o.TLSConfig != nil, [3]string{o.Sentinel.MasterSet, o.Sentinel.Username, o.Sentinel.Password}})
			if tt.want.tls {
				require.Empty(t, o.TLSConfig.ServerName, "the host that is dialed")
				require.False(t, o.TLSConfig.InsecureSkipVerify)
			}
		})
	}
}

// badURLs hold "secret" where a password, or what was meant to be one, stands.
var badURLs = []string{
	"", "h", "h:6379", "http://h", "valkey:/h", "VALKEY://h", "mysql://u:secret@h", "secret@h",
	"valkey://u:secret@h:port", "valkey://u:secret@h/x", "valkey://u:secret@h/1/2", "valkey://u:secret@h?tls=1",
	"valkey://u:secret@h?db=x", "valkey://u:sec%ret@h", "valkey://u:secret @h", "valkey://u:secret@[::1",
	"valkey://u:12?secret@h", "valkey://u:12/secret@h", "valkey://u:12#secret@h", "valkey://u:12?a=b&secret@h=1", "valkey://u:12?secret",
	"valkey://u:secret@h#x", "valkey://u:secret\n@h",
	"valkey://a,,b", "valkey://a,", "valkey://a:1,b:x", "valkey://a:1,b:99999", "valkey://a,b/c,d",
	"unix://tmp/a.sock", "unix://", "unix:///a?path=secret",
	"valkey://h?ca=secret", "redis://h?cert=secret&key=x", "unix:///a?sentinel=secret", "valkey://h?sentinel=", "valkey://h?sentinel=a&sentinel=secret",
	"valkey://h?sentinel-password=secret", "valkey://h?sentinel=%secret", "valkey://h?db=1?db=2", "valkey://a:x?sentinel=secret",
	"valkey://h?protocol=2", "valkey://h?client_name=x", "valkey://h?dial_timeout=1s", "valkey://h?write_timeout=1s", "valkey://h?max_retries=0", "rediss://h?skip_verify",
}

// TestParseURLRefuses: what would be dropped or misread is refused, by a text that holds nothing of the URL.
func TestParseURLRefuses(t *testing.T) {
	for _, u := range badURLs {
		_, err := tier.ParseURL(u)
		require.ErrorIs(t, err, tier.ErrURL, "%q", u)
		require.NotContains(t, err.Error(), "secret", "%q", u)
		_, err = tier.Dial(t.Context(), u, tier.Options{})
		require.ErrorIs(t, err, tier.ErrURL, "%q", u)
	}
}

// FuzzParseURL: no panic, and no text with the password.
func FuzzParseURL(f *testing.F) {
	for _, u := range badURLs {
		f.Add(strings.ReplaceAll(u, "secret", "pw"))
	}
	f.Add("valkey://u:pw@h:1,b/2?db=3")
	f.Fuzz(func(t *testing.T, s string) {
		const secret = "s3cr3t-pa55"
		o, err := tier.ParseURL(strings.ReplaceAll(s, "pw", secret))
		if err != nil {
			require.ErrorIs(t, err, tier.ErrURL)
			require.NotContains(t, err.Error(), secret)
			require.Less(t, len(err.Error()), 250)
			return
		}
		require.NotEmpty(t, o.InitAddress)
		for _, a := range o.InitAddress {
			require.NotEmpty(t, a)
		}
		if u, err := url.Parse(s); err == nil && u.User == nil {
			require.Empty(t, o.Password)
		}
	})
}
