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
func clientOption(raw string, base *tls.Config) (opt rueidis.ClientOption, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !slices.Contains(schemes, scheme) {
		return opt, refuseURL("it starts with one of %s", strings.Join(schemes, "://, ")+"://")
	}
	if strings.Contains(rest, "#") {
		return opt, refuseURL("a # is written as %%23")
	}
	secured := scheme == "valkeys" || scheme == "rediss"
	params, err := parameters(rest, scheme == "unix", secured)
	if err != nil {
		return opt, err
	}
	if base != nil && !secured {
		return opt, refuseURL("Options.TLS needs valkeys:// or rediss://")
	}
	if scheme == "unix" {
		opt, err = socketOption(raw)
	} else {
		opt, err = hostOption(scheme, rest, params.Has("sentinel"))
	}
	if err == nil && secured {
		opt.TLSConfig, err = tlsConfig(base, params)
	}
	opt.Sentinel = rueidis.SentinelOption{
		MasterSet: params.Get("sentinel"),
		Username:  params.Get("sentinel-user"), Password: params.Get("sentinel-password"),
		TLSConfig: opt.TLSConfig, TopologyRefreshInterval: refresh,
	}
	return opt, err
}

func socketOption(raw string) (opt rueidis.ClientOption, err error) {
	if u, err := url.Parse(raw); err == nil && (u.Host != "" || u.Path == "" || u.Path == "/") {
		return opt, refuseURL("a socket is unix:///<path>, with three slashes")
	}
	return parsed(raw)
}

// hostOption reads several addresses, which the client library's parser takes one of.
func hostOption(scheme, rest string, sentinels bool) (opt rueidis.ClientOption, err error) {
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	at := strings.LastIndexByte(authority, '@') + 1
	port := defaultPort
	if sentinels {
		port = sentinelPort
	}
	addrs, err := addresses(authority[at:], port)
	if err != nil {
		return opt, err
	}
	if tail == "/" || strings.HasPrefix(tail, "/?") {
		tail = tail[1:]
	}
	opt, err = parsed(scheme + "://" + authority[:at] + addrs[0] + tail)
	if len(addrs) > 1 {
		opt.InitAddress = addrs
	}
	return opt, err
}

func parsed(raw string) (opt rueidis.ClientOption, err error) {
	if _, err := url.Parse(raw); err != nil {
		return opt, refuseURL("it cannot be parsed (special characters in a password are written as %%XX)")
	}
	if opt, err = rueidis.ParseURL(raw); err != nil {
		return opt, refuseURL("host, port or database number is wrong")
	}
	return opt, nil
}

// parameters are those of a URL without its scheme. Each may stand there once, and only where it has a meaning.
func parameters(rest string, socket, secured bool) (url.Values, error) {
	_, query, _ := strings.Cut(rest, "?")
	params, err := url.ParseQuery(query)
	if err != nil || strings.Contains(query, "?") {
		return nil, refuseURL("its parameters cannot be parsed (special characters are written as %%XX)")
	}
	for name, values := range params {
		switch {
		case !slices.Contains(parameterNames, name):
			err = refuseURL("the parameters are %s", strings.Join(parameterNames, ", "))
		case len(values) > 1 || values[0] == "":
			err = refuseURL("each parameter is given once, with a value")
		case slices.Contains(tlsParameters, name) && !secured:
			err = refuseURL("ca, cert and key need valkeys:// or rediss://")
		case strings.HasPrefix(name, "sentinel") && (socket || !params.Has("sentinel")):
			err = refuseURL("sentinels are valkey://host:%s,host:%s?sentinel=<name of the primary>", sentinelPort, sentinelPort)
		case name == "cert" && !params.Has("key"), name == "key" && !params.Has("cert"):
			err = refuseURL("cert and key go together")
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

func refuseURL(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrURL}, args...)...)
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
			return nil, refuseURL("an address is host:port, with a port from 1 to 65535; several are separated by commas")
		}
		addrs[i] = net.JoinHostPort(host, port)
	}
	return addrs, nil
}
