package tier

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// ErrURL is matched by every refusal of a server URL. Its texts never hold the URL, which may have a password.
var ErrURL = errors.New("tier: bad server URL")

var schemes = []string{"valkey", "valkeys", "redis", "rediss", "unix"}

// clientOption reads valkey://, valkeys://, redis://, rediss:// and unix:// URLs. Further nodes of a cluster follow the
// first, separated by commas: valkey://a:6379,b:6379.
func clientOption(raw string) (rueidis.ClientOption, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !slices.Contains(schemes, scheme) {
		return rueidis.ClientOption{}, fmt.Errorf("%w: it starts with one of %s", ErrURL, strings.Join(schemes, "://, ")+"://")
	}
	var more []string
	if scheme != "unix" {
		authority, tail := rest, ""
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			authority, tail = rest[:i], rest[i:]
		}
		hosts := strings.Split(authority[strings.LastIndexByte(authority, '@')+1:], ",")
		user := authority[:strings.LastIndexByte(authority, '@')+1]
		raw, more = scheme+"://"+user+hosts[0]+tail, hosts[1:]
	}
	u, err := url.Parse(raw)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("%w: it cannot be parsed (special characters in a password are written as %%XX)", ErrURL)
	}
	if err := checkQuery(u); err != nil {
		return rueidis.ClientOption{}, err
	}
	opt, err := rueidis.ParseURL(raw)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("%w: host, port or database number is wrong", ErrURL)
	}
	for _, host := range more {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(host, "6379")
		}
		opt.InitAddress = append(opt.InitAddress, host)
	}
	return opt, nil
}

// checkQuery refuses parameters that would be dropped silently.
func checkQuery(u *url.URL) error {
	for name := range u.Query() {
		switch name {
		case "db", "addr", "client_name", "dial_timeout", "write_timeout", "protocol":
		default:
			return fmt.Errorf("%w: unknown parameter %q", ErrURL, name)
		}
	}
	return nil
}
