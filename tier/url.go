package tier

import (
	"crypto/tls"
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
	defaultHost  = "localhost"
	defaultPort  = "6379"
	sentinelPort = "26379"
)

// clientOption reads valkey://, valkeys://, redis://, rediss:// and unix:// URLs, as Dial's comment has them. Base is the
// TLS configuration of the options.
func clientOption(raw string, base *tls.Config) (rueidis.ClientOption, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !slices.Contains(schemes, scheme) {
		return refuseURL("it starts with one of %s", strings.Join(schemes, "://, ")+"://")
	}
	if strings.Contains(rest, "#") {
		return refuseURL("a # is written as %%23")
	}
	secured := scheme == "valkeys" || scheme == "rediss"
	params, err := parameters(rest, scheme == "unix", secured)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	if base != nil && !secured {
		return refuseURL("Options.TLS needs valkeys:// or rediss://")
	}
	var addrs []string
	if scheme != "unix" {
		authority, tail := rest, ""
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			authority, tail = rest[:i], rest[i:]
		}
		at := strings.LastIndexByte(authority, '@') + 1
		port := defaultPort
		if params.Has("sentinel") {
			port = sentinelPort
		}
		if addrs, err = addresses(authority[at:], port); err != nil {
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
	opt, err := rueidis.ParseURL(raw)
	if err != nil {
		return refuseURL("host, port or database number is wrong")
	}
	if len(addrs) > 1 {
		opt.InitAddress = addrs
	}
	if secured {
		if opt.TLSConfig, err = tlsConfig(base, params); err != nil {
			return rueidis.ClientOption{}, err
		}
	}
	opt.Sentinel = rueidis.SentinelOption{
		MasterSet: params.Get("sentinel"),
		Username:  params.Get("sentinel-user"), Password: params.Get("sentinel-password"),
		TLSConfig: opt.TLSConfig, TopologyRefreshInterval: refresh,
	}
	return opt, nil
}

// parameters are those of a URL without its scheme. Each may stand there once, and only where it has a meaning.
func parameters(rest string, socket, secured bool) (url.Values, error) {
	_, query, _ := strings.Cut(rest, "?")
	params, err := url.ParseQuery(query)
	if err == nil && strings.Contains(query, "?") {
		err = ErrURL
	}
	if err != nil {
		_, err := refuseURL("its parameters cannot be parsed (special characters are written as %%XX)")
		return nil, err
	}
	for name, values := range params {
		switch {
		case !slices.Contains(parameterNames, name):
			_, err = refuseURL("the parameters are %s", strings.Join(parameterNames, ", "))
		case len(values) > 1 || values[0] == "":
			_, err = refuseURL("each parameter is given once, with a value")
		case slices.Contains(tlsParameters, name) && !secured:
			_, err = refuseURL("ca, cert and key need valkeys:// or rediss://")
		case strings.HasPrefix(name, "sentinel") && (socket || !params.Has("sentinel")):
			_, err = refuseURL("sentinels are valkey://host:%s,host:%s?sentinel=<name of the primary>", sentinelPort, sentinelPort)
		case name == "cert" && !params.Has("key"), name == "key" && !params.Has("cert"):
			_, err = refuseURL("cert and key go together")
		}
		if err != nil {
			return nil, err
		}
	}
	return params, nil
}

var (
	tlsParameters  = []string{"ca", "cert", "key"}
	parameterNames = append([]string{"db", "sentinel", "sentinel-user", "sentinel-password"}, tlsParameters...)
)

func refuseURL(format string, args ...any) (rueidis.ClientOption, error) {
	return rueidis.ClientOption{}, fmt.Errorf("%w: "+format, append([]any{ErrURL}, args...)...)
}

// addresses reads host:port,host:port; a port may be missing, and of a single address the host.
func addresses(list, port string) ([]string, error) {
	addrs := strings.Split(list, ",")
	for i, a := range addrs {
		if _, _, err := net.SplitHostPort(a); err != nil { // no port, or none that can be told from the host
			a += ":" + port
		}
		host, port, wrong := net.SplitHostPort(a)
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
