package tier

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// ErrURL is matched by every refusal of a server URL. Its texts hold nothing of the URL, which may have a password, also
// where none should be: one that is not escaped moves the borders between the parts.
var ErrURL = errors.New("tier: bad server URL")

var schemes = []string{"valkey", "valkeys", "redis", "rediss", "unix"}

const (
	defaultHost = "localhost"
	defaultPort = "6379"
)

// clientOption reads valkey://, valkeys://, redis://, rediss:// and unix:// URLs. Further nodes of a cluster follow the
// first, separated by commas: valkey://a:6379,b:6379. The one parameter is db, a number.
func clientOption(raw string) (rueidis.ClientOption, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !slices.Contains(schemes, scheme) {
		return refuseURL("it starts with one of %s", strings.Join(schemes, "://, ")+"://")
	}
	if strings.Contains(rest, "#") {
		return refuseURL("a # is written as %%23")
	}
	var addrs []string
	if scheme != "unix" {
		authority, tail := rest, ""
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			authority, tail = rest[:i], rest[i:]
		}
		at := strings.LastIndexByte(authority, '@') + 1
		var err error
		if addrs, err = addresses(authority[at:]); err != nil {
			return rueidis.ClientOption{}, err
		}
		if tail == "/" || strings.HasPrefix(tail, "/?") {
			tail = tail[1:]
		}
		raw = scheme + "://" + authority[:at] + addrs[0] + tail
	}
	u, err := url.Parse(raw)
	if err != nil {
		return refuseURL("it cannot be parsed (special characters in a password are written as %%XX)")
	}
	if scheme == "unix" && (u.Host != "" || u.Path == "" || u.Path == "/") {
		return refuseURL("a socket is unix:///<path>, with three slashes")
	}
	for name := range u.Query() {
		if name != "db" {
			return refuseURL("the only parameter is db=<number>")
		}
	}
	opt, err := rueidis.ParseURL(raw)
	if err != nil {
		return refuseURL("host, port or database number is wrong")
	}
	if len(addrs) > 1 {
		opt.InitAddress = addrs
	}
	return opt, nil
}

func refuseURL(format string, args ...any) (rueidis.ClientOption, error) {
	return rueidis.ClientOption{}, fmt.Errorf("%w: "+format, append([]any{ErrURL}, args...)...)
}

// addresses reads host:port,host:port; a port may be missing, and of a single address the host.
func addresses(list string) ([]string, error) {
	addrs := strings.Split(list, ",")
	for i, a := range addrs {
		host, port, wrong := net.SplitHostPort(a)
		if wrong != nil { // no port, or none that can be told from the host
			host, port, wrong = net.SplitHostPort(a + ":" + defaultPort)
		}
		if host == "" && len(addrs) == 1 {
			host = defaultHost
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || wrong != nil {
			_, err := refuseURL("an address is host:port, with a port from 1 to 65535; several are separated by commas")
			return nil, err
		}
		addrs[i] = net.JoinHostPort(host, port)
	}
	return addrs, nil
}
