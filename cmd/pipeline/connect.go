package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/embedded"
)

// How long the embedded server may take to start, its data included, and to end.
const (
	startTimeout = time.Minute
	stopTimeout  = 30 * time.Second
)

// withClient runs f with a connection to the server, for at most --timeout.
func (a *app) withClient(ctx context.Context, f func(context.Context, *tier.Client) error) (err error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	defer func() { err = a.late(ctx, err) }()
	url, source, err := a.serverURL()
	if err != nil {
		return err
	}
	if url == "" {
		lease, refused := a.share(ctx)
		if refused != nil {
			return refused
		}
		defer func() { err = cmp.Or(err, release(ctx, lease)) }()
		url = lease.URL()
		a.embedded = true
		defer func() { err = a.embeddedEnded(err) }()
	}
	client, err := tier.Dial(ctx, url, tier.Options{ClientName: "pipeline", Logger: a.logger()})
	if errors.Is(err, tier.ErrURL) {
		return fmt.Errorf("%s: %w", source, err)
	}
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, client)
}

// serverURL is the URL that was asked for and where it stands, or "" for the embedded
// server.
func (a *app) serverURL() (url, source string, err error) {
	switch {
	case a.url != "" && a.urlFile != "":
		return "", "", usagef("--url and --url-file: give one of them")
	case a.url != "":
		if hasPassword(a.url) {
			a.warn("the password in --url shows in the list of processes: put the URL into a file for --url-file, or into PIPELINE_URL")
		}
		return a.url, "--url", nil
	case a.urlFile != "":
		url, err = a.readURLFile()
		return url, "--url-file " + a.urlFile, err
	}
	url, set := os.LookupEnv("PIPELINE_URL")
	if url = strings.TrimSpace(url); set && url == "" {
		return "", "", usagef("PIPELINE_URL is set and empty: want a URL, as in valkey://host:6379; unset it for the embedded server")
	}
	return url, "PIPELINE_URL", nil
}

// noURL refuses a URL for a command that runs a server of its own.
func (a *app) noURL(command string) error {
	for flag, text := range map[string]string{"--url": a.url, "--url-file": a.urlFile} {
		if text != "" {
			return usagef("%s has no meaning here: %s runs a server of its own", flag, command)
		}
	}
	return nil
}

// hasPassword looks for user:password@ in front of the host, and for the sentinels' password.
func hasPassword(url string) bool {
	if strings.Contains(url, "sentinel-password=") {
		return true
	}
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 && !strings.Contains(rest[i:], "@") {
		rest = rest[:i]
	}
	user := rest[:max(0, strings.LastIndexByte(rest, '@'))]
	_, password, ok := strings.Cut(user, ":")
	return ok && password != ""
}

func (a *app) readURLFile() (string, error) {
	info, err := os.Stat(a.urlFile)
	if err != nil {
		return "", &usageError{fileError("--url-file "+a.urlFile, err)}
	}
	data, err := os.ReadFile(a.urlFile)
	if err != nil {
		return "", &usageError{fileError("--url-file "+a.urlFile, err)}
	}
	url := strings.TrimSpace(string(data))
	if url == "" {
		return "", usagef("--url-file %s: the file is empty, want a URL as in valkey://user:password@host:6379", a.urlFile)
	}
	if hasPassword(url) && info.Mode().Perm()&0o077 != 0 && info.Mode().IsRegular() {
		a.warn("--url-file %s holds a password and others can read it: chmod 600 it", a.urlFile)
	}
	return url, nil
}

// share takes part in the embedded server that all commands of this user share.
func (a *app) share(ctx context.Context) (*embedded.Lease, error) {
	dir, err := embedded.DefaultDir()
	if err != nil {
		return nil, err
	}
	lease, err := a.shareDir(ctx, dir)
	if err == nil {
		a.note("no server URL: using the embedded server, %s, with its data in %s", lease.Version(), lease.Dir())
	}
	return lease, err
}

func (a *app) shareDir(ctx context.Context, dir string) (*embedded.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return embedded.Share(ctx, dir)
}

// release gives the embedded server back, also when ctx has ended.
func release(ctx context.Context, lease *embedded.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return lease.Release(ctx)
}
