package doctor

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/echomq/pipeline/tier"
)

// Severity says how bad a finding is.
type Severity string

// Severities, the worst first.
const (
	Error   Severity = "error"   // something does not work, or messages will be lost
	Warning Severity = "warning" // it will be one if nobody acts, or might be
	Note    Severity = "note"    // worth knowing
)

var ranks = map[Severity]int{Error: 0, Warning: 1, Note: 2}

// Finding is one thing that somebody should know of.
type Finding struct {
	Severity Severity
	Code     string // for programs; it does not change
	Where    string // a node, scope, stream or group
	What     string
	Do       string // what to do about it
}

// Report is the outcome of an examination.
type Report struct {
	Findings                                []Finding // the worst first
	Nodes, Scopes, Streams, Groups, Cursors int       // that were examined
}

// Worst is the severity of the worst finding; empty without one.
func (r *Report) Worst() Severity {
	if len(r.Findings) == 0 {
		return ""
	}
	return r.Findings[0].Severity
}

func sorted(list []Finding) []Finding {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(ranks[a.Severity], ranks[b.Severity]), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Code, b.Code))
	})
	return list
}

// Refused makes a finding of why tier.Dial has failed, so that a deployment which lets nobody in is diagnosed too. It is
// false for what no server and no network has said, such as a bad URL, or a caller who stopped waiting.
func Refused(err error) (Finding, bool) {
	var version *tier.VersionError
	var denied *tier.PermissionError
	switch {
	case errors.As(err, &version):
		return Finding{
			Error, "wire-version", tier.VersionKey, "the server holds data of another wire, " + quoted(version.Found) + "; this program speaks " + tier.Wire,
			"use a program of that version, or another server",
		}, true
	case errors.Is(err, tier.ErrServerTooOld):
		return Finding{Error, "server-version", "server", err.Error(), "run Valkey 8, or Redis 7.0 or later"}, true
	case errors.Is(err, tier.ErrReadOnly):
		return Finding{Error, "read-only", "server", "it is a replica that holds no data of this program", "connect to its primary"}, true
	case errors.As(err, &denied):
		return Finding{Error, "rights", "user", denied.Text, "grant at least GET on " + tier.VersionKey + ", with ACL SETUSER"}, true
	}
	class := tier.Classify(err)
	var failed *tier.Error
	if !errors.As(err, &failed) || class == tier.ErrCancelled || class == tier.ErrClosed {
		return Finding{}, false
	}
	what, do, _ := strings.Cut(class.Advice, ": ") // which is of that form
	return Finding{Error, refusal(err), "server", what + ": " + failed.Err.Error(), do}, true
}

func refusal(err error) string {
	switch {
	case errors.Is(err, tier.ErrAuth):
		return "auth"
	case errors.Is(err, tier.ErrTLS):
		return "tls"
	case errors.Is(err, tier.ErrClusterDown), errors.Is(err, tier.ErrMoved):
		return "cluster"
	case errors.Is(err, tier.ErrServer):
		return "refused"
	}
	return "unreachable"
}
