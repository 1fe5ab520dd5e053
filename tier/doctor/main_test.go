package doctor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/doctor"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

// fixture is a client of a private server, with the stream shop/orders of three messages, and a group that has read two.
type fixture struct {
	t      testing.TB
	ctx    context.Context
	server *tiertest.Server
	client *tier.Client
	member *stream.Member
}

var orders = tier.Address{Scope: "shop", Stream: "orders"}

func setUp(t testing.TB, k tiertest.Kind, args ...string) *fixture {
	t.Helper()
	s := tiertest.Private(t, k, append([]string{"--appendonly", "yes"}, args...)...)
	f := &fixture{t: t, server: s, client: tiertest.Dial(t, s)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	f.ctx = ctx
	w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: orders.String()})
	require.NoError(t, err)
	_, err = w.AppendBatch(ctx, make([]codec.Message, 3))
	require.NoError(t, err)
	g, err := stream.NewGroup(f.client, stream.GroupConfig{Address: orders.String(), Name: "mailer", Start: stream.Head()})
	require.NoError(t, err)
	f.member, err = g.Join(ctx, "m")
	require.NoError(t, err)
	leased, err := f.member.Read(ctx, 2, 0)
	require.NoError(t, err)
	require.Len(t, leased, 2)
	return f
}

func (f *fixture) do(args ...string) { f.server.Command(f.t, args...) }

func (f *fixture) examine(o doctor.Options) doctor.Report {
	f.t.Helper()
	r, err := doctor.Examine(f.ctx, f.client, o)
	require.NoError(f.t, err)
	return r
}

// coded are the findings with a code.
func coded(r doctor.Report, code string) (list []doctor.Finding) {
	for _, f := range r.Findings {
		if f.Code == code {
			list = append(list, f)
		}
	}
	return list
}

func codes(r doctor.Report) string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, f.Code)
	}
	return strings.Join(all, " ")
}

// userURL is a URL as something that has one.
type userURL string

func (u userURL) URL() string { return string(u) }

// cutRole takes a role's lack out of a finding.
func cutRole(what, role string) (string, bool) {
	return strings.CutPrefix(what, "the user cannot be "+role+": ")
}
