package doctor_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/doctor"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRights: each missing command and key is named, for each role; with all of them there is nothing to say.
func TestRights(t *testing.T) {
	tests := []struct {
		name  string
		rules []string
		want  map[string]string // role -> what it lacks
	}{
		{"all", []string{"~*", "+@all"}, nil},
		{"no XADD", []string{"~*", "+@all", "-xadd"}, map[string]string{
			"writer": "it lacks the command XADD", "consumer": "it lacks the command XADD", "owner": "it lacks the command XADD", // and not the operator
		}},
		{"no XCLAIM and no HINCRBY", []string{"~*", "+@all", "-xclaim", "-hincrby"}, map[string]string{
			"consumer": "it lacks the command XCLAIM, the command HINCRBY", "sweeper": "it lacks the command HINCRBY",
		}},
		{"no scope's hash", []string{"~{emq}:*", "~emq:{shop}:stream:*", "+@all"}, map[string]string{
			"writer": "it lacks the key emq:{shop}:scope", "reader": "it lacks the key emq:{shop}:scope", "consumer": "it lacks the key emq:{shop}:scope", "owner": "it lacks the key emq:{shop}:scope", "operator": "it lacks the key emq:{shop}:scope",
			"sweeper": "it lacks the key emq:{shop}:sweeper, the key emq:{shop}:scope",
		}},
		{"no write to dead letters", []string{"%R~emq:{shop}:stream:*:dead:*", "~{emq}:*", "~emq:{shop}:scope", "~emq:{shop}:stream:x", "~emq:{shop}:stream:*:pid:*", "~emq:{shop}:stream:*:seen:*", "~emq:{shop}:stream:*:done:*", "~emq:{shop}:stream:*:cursors", "~emq:{shop}:stream:*:retention", "~emq:{shop}:stream:*:archived", "~emq:{shop}:sweeper", "~emq:{shop}:stream:*:g:*", "+@all"}, map[string]string{
			"consumer": "it lacks EVALSHA on emq:{shop}:stream:x:dead:x, EVAL on emq:{shop}:stream:x:dead:x, XADD on emq:{shop}:stream:x:dead:x", "owner": "it lacks EVALSHA on emq:{shop}:stream:x:dead:x, EVAL on emq:{shop}:stream:x:dead:x, XADD on emq:{shop}:stream:x:dead:x", "operator": "it lacks EVALSHA on emq:{shop}:stream:x:dead:x, EVAL on emq:{shop}:stream:x:dead:x, XDEL on emq:{shop}:stream:x:dead:x, UNLINK on emq:{shop}:stream:x:dead:x",
		}},
		{"no XGROUP", []string{"~*", "+@all", "-xgroup"}, map[string]string{
			"consumer": "it lacks the command XGROUP CREATE, the command XGROUP SETID, the command XGROUP DELCONSUMER",
			"operator": "it lacks the command XGROUP CREATE, the command XGROUP SETID, the command XGROUP DESTROY",
			"sweeper":  "it lacks the command XGROUP DESTROY",
		}},
	}
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for _, tt := range tests {
			t.Run(string(kind)+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				f := setUp(t, kind)
				u := tiertest.NewUser(t, []*tiertest.Server{f.server}, tt.rules...)
				f.client = tiertest.Dial(t, userURL(u.At(f.server)))
				got := map[string]string{}
				for _, finding := range coded(f.examine(doctor.Options{Scopes: []string{"shop"}}), "rights") {
					require.Equal(t, "scope shop", finding.Where)
					require.Equal(t, doctor.Note, finding.Severity)
					for _, role := range doctor.Roles() {
						if what, ok := cutRole(finding.What, role); ok {
							got[role] = what
						}
					}
				}
				require.Len(t, got, len(tt.want), "%v", got)
				for role, want := range tt.want {
					require.Equal(t, want, got[role], role)
				}
			})
		}
	}
}

// TestRolesAreTheDocuments: the commands of each role are those of docs/security.md, which a test holds to what the roles do; and
// a user with just its lines lacks nothing.
func TestRolesAreTheDocuments(t *testing.T) {
	for _, role := range append(doctor.Roles(), doctor.QueueRoles()...) {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			rules := strings.Fields(block(t, "acl "+role))
			commands := slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return rule[0] != '+' })
			slices.Sort(commands)
			require.Equal(t, commands, doctor.Commands(role))

			f := setUp(t, tiertest.Valkey)
			u := tiertest.NewUser(t, []*tiertest.Server{f.server}, rules...)
			f.client = tiertest.Dial(t, userURL(u.At(f.server)))
			as := doctor.As{Role: role, Stream: "orders", Group: "mailer"}
			require.Empty(t, coded(f.examine(doctor.Options{Scopes: []string{"shop"}, As: as}), "rights"))
			for _, finding := range coded(f.examine(doctor.Options{Scopes: []string{"shop"}}), "rights") {
				require.Equal(t, doctor.Note, finding.Severity) // of other roles
				_, is := cutRole(finding.What, role)
				require.False(t, is && role != "consumer" && role != "owner", finding.What) // which may not list what it works on
			}

			for _, right := range commands { // a command that is missing is named, and its keys are not
				if right == "+eval" || right == "+evalsha" {
					continue // without which nothing can be asked
				}
				u.Grant(t, []*tiertest.Server{f.server}, strings.Replace(right, "+", "-", 1))
				lacks := coded(f.examine(doctor.Options{Scopes: []string{"shop"}, As: as}), "rights")
				require.Len(t, lacks, 1, right)
				require.Equal(t, doctor.Error, lacks[0].Severity)
				command := strings.ToUpper(strings.ReplaceAll(right[1:], "|", " "))
				require.Equal(t, "the user cannot be "+role+": it lacks the command "+command, lacks[0].What)
				u.Grant(t, []*tiertest.Server{f.server}, right)
			}
			u.Grant(t, []*tiertest.Server{f.server}, "-evalsha")
			lacks := coded(f.examine(doctor.Options{Scopes: []string{"shop"}, As: as}), "rights")
			require.Len(t, lacks, 1)
			require.Contains(t, lacks[0].What, "EVALSHA")

			u.Grant(t, []*tiertest.Server{f.server}, "+evalsha", "resetkeys", "~{emq}:*", "~"+tier.ScopeKey("shop"))
			lacks = coded(f.examine(doctor.Options{Scopes: []string{"shop"}, As: as}), "rights")
			require.Len(t, lacks, 1)
			missing := orders.LogKey()
			if slices.Contains(doctor.QueueRoles(), role) {
				missing = tier.Queue("shop").JobsKey()
			}
			require.Contains(t, lacks[0].What, "it lacks the key "+missing) // and no command
			require.NotContains(t, lacks[0].What, "command")
		})
	}
}

// TestRightsOnTheChannel: a user who may run the command lacks the channel, and is told so.
func TestRightsOnTheChannel(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, kind)
			u := tiertest.NewUser(t, []*tiertest.Server{f.server}, "~*", "+@all")
			f.client = tiertest.Dial(t, userURL(u.At(f.server)))
			for role, want := range map[string]string{"enqueuer": "", "worker": "it lacks the channel emq:{shop}:jobs:cancel", "queue-operator": "it lacks the channel emq:{shop}:jobs:cancel"} {
				lacks := coded(f.examine(doctor.Options{Scopes: []string{"shop"}, As: doctor.As{Role: role}}), "rights")
				if want == "" {
					require.Empty(t, lacks)
					continue
				}
				require.Len(t, lacks, 1)
				require.Equal(t, "the user cannot be "+role+": "+want, lacks[0].What)
			}
			u.Grant(t, []*tiertest.Server{f.server}, "&emq:{shop}:jobs:*")
			require.Empty(t, coded(f.examine(doctor.Options{Scopes: []string{"shop"}, As: doctor.As{Role: "worker"}}), "rights"))
		})
	}
}

// block is a block of docs/security.md.
func block(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "\n```"+name+"\n")
	require.True(t, found, name)
	block, _, _ = strings.Cut(block, "```")
	return block
}

// TestDoctorsRights: with the rights that docs/security.md gives an operator who runs doctor, it may look at everything; without any
// one of those that it adds, it says what it could not look at.
func TestDoctorsRights(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.ValkeyCluster, tiertest.Redis, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, kind)
			servers := []*tiertest.Server{f.server}
			more := strings.Fields(block(t, "acl doctor"))
			if kind.Cluster() {
				more = append(more, strings.Fields(block(t, "acl doctor-cluster"))...)
			}
			u := tiertest.NewUser(t, servers, append(strings.Fields(block(t, "acl operator")+block(t, "acl cluster")), more...)...)
			f.client = tiertest.Dial(t, userURL(u.At(f.server)))
			for _, as := range []doctor.As{{}, {Role: "operator"}} {
				r := f.examine(doctor.Options{As: as})
				require.Equal(t, []int{1, 1, 1, 1}, []int{r.Nodes, r.Scopes, r.Streams, r.Groups})
				for _, finding := range r.Findings { // of the roles that it does not have
					require.True(t, finding.Code == "rights" && finding.Severity == doctor.Note && as.Role == "", "%v", finding)
				}
			}
			for _, right := range more {
				u.Grant(t, servers, strings.Replace(right, "+", "-", 1))
				require.NotEmpty(t, coded(f.examine(doctor.Options{}), "not-examined"), right)
				u.Grant(t, servers, right)
			}
		})
	}
}

// TestTheDocumentMakesAUser: what docs/security.md gives to a shell reaches the server as it stands there, and makes the consumer.
func TestTheDocumentMakesAUser(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, kind)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(dir+"/valkey-cli", []byte("#!/bin/sh\ncat\n"), 0o700)) // says what it is given
			cmd := exec.CommandContext(f.ctx, "sh", "-euc", block(t, "sh user"))
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
			out, err := cmd.Output()
			require.NoError(t, err)
			var rules []string
			for line := range strings.Lines(string(out)) {
				words := strings.Fields(line)
				f.do(words...)
				rules = append(rules, words[3:]...)
			}
			require.Equal(t, []string{"reset", "on", ">put-a-long-password-here"}, rules[:3])
			require.Equal(t, strings.Fields(block(t, "acl consumer")), rules[3:])
			f.client = tiertest.Dial(t, userURL(strings.Replace(f.server.URL(), "://", "://mailer:put-a-long-password-here@", 1)))
			as := doctor.As{Role: "consumer", Stream: "orders", Group: "mailer"}
			require.Empty(t, coded(f.examine(doctor.Options{Scopes: []string{"shop"}, As: as}), "rights"))
		})
	}
}

// TestAs: a role is tested with the keys that are named, or with those that fit best; there are no others.
func TestAs(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Valkey)
	u := tiertest.NewUser(t, []*tiertest.Server{f.server}, "+@all", "~{emq}:*", "~"+tier.ScopeKey("shop"), "~"+tier.SweeperKey("shop"), "~"+orders.LogKey()+"*")
	f.client = tiertest.Dial(t, userURL(u.At(f.server)))
	lacks := func(as doctor.As) int {
		return len(coded(f.examine(doctor.Options{Scopes: []string{"shop"}, As: as}), "rights"))
	}
	require.Zero(t, lacks(doctor.As{Role: "writer"}))
	require.Zero(t, lacks(doctor.As{Role: "consumer", Group: "later"}))
	require.Zero(t, lacks(doctor.As{}))
	require.Equal(t, 1, lacks(doctor.As{Role: "writer", Stream: "others"}))
	_, err := doctor.Examine(f.ctx, f.client, doctor.Options{As: doctor.As{Role: "king"}})
	require.ErrorContains(t, err, `no role is called "king": there are writer, reader, consumer, owner, operator, sweeper`)
}

// TestNoScopeIsListed: without the right to the registry there is nothing to examine, which is a warning.
func TestNoScopeIsListed(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Valkey)
	u := tiertest.NewUser(t, []*tiertest.Server{f.server}, "+@all", "-hscan", "~*")
	f.client = tiertest.Dial(t, userURL(u.At(f.server)))
	r := f.examine(doctor.Options{})
	require.Equal(t, doctor.Warning, r.Worst())
	require.Equal(t, "not-examined", r.Findings[0].Code)
	require.Contains(t, r.Findings[0].What, "the registry, and so every scope, could not be examined")
	require.Contains(t, r.Findings[0].Do, "name the scopes, as in 'pipeline doctor shop'")
	r = f.examine(doctor.Options{Scopes: []string{"shop"}})
	require.Equal(t, doctor.Note, r.Worst())
}

// TestLeastRights: a user that may hardly do anything gets an answer that says what could not be examined.
func TestLeastRights(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, kind)
			u := tiertest.NewUser(t, []*tiertest.Server{f.server}, "~{emq}:*", "+get", "+hello", "+ping")
			f.client = tiertest.Dial(t, userURL(u.At(f.server)))
			r := f.examine(doctor.Options{Scopes: []string{"shop"}})
			require.Equal(t, doctor.Note, r.Worst(), "%v", r.Findings)
			var what string
			for _, n := range coded(r, "not-examined") {
				what += n.What + "\n"
			}
			for _, part := range []string{
				"the clock", "memory, persistence and role", "appendfsync and save", "capabilities", "the registry, or part of it,", "what must hold", "its number", "its streams", "the user's rights",
			} {
				require.Contains(t, what, part+" could not be examined: ")
			}
		})
	}
}

// TestRefused: a server that lets nobody in is diagnosed by the error of Dial.
func TestRefused(t *testing.T) {
	f := setUp(t, tiertest.Valkey)
	dial := func(url string) (doctor.Finding, bool) {
		c, err := tier.Dial(f.ctx, url, tier.Options{})
		if err == nil {
			c.Close()
		}
		return doctor.Refused(err)
	}
	u := tiertest.NewUser(t, []*tiertest.Server{f.server}, "+ping", "+hello")
	found, ok := dial(u.At(f.server))
	require.True(t, ok)
	require.Equal(t, "rights", found.Code)
	f.do("SET", tier.VersionKey, "echomq:9.0.0")
	found, ok = dial(f.server.URL())
	require.True(t, ok)
	require.Equal(t, "wire-version", found.Code)
	require.Contains(t, found.What, `"echomq:9.0.0"`)
	f.do("SET", tier.VersionKey, "\xff\xfe")
	found, ok = dial(f.server.URL())
	require.True(t, ok)
	require.Contains(t, found.What, `"\xff\xfe"`)
	_, ok = dial("nowhere")
	require.False(t, ok)
	_, ok = doctor.Refused(nil)
	require.False(t, ok)

	pair := tiertest.NewReplicated(t, tiertest.Valkey)
	pair.WaitSynced(t)
	found, ok = dial(pair.Replica.URL())
	require.True(t, ok)
	require.Equal(t, "read-only", found.Code)
}

// TestNobodyGetsIn: each way in which Dial fails at the door has a code, what was said there, and what to do.
func TestNobodyGetsIn(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	proxy := tiertest.NewProxy(t, s)
	guest := tiertest.NewUser(t, []*tiertest.Server{s}, "+@all", "~*")
	sealed := tiertest.NewTLS(t, tiertest.Valkey, tiertest.NewAuthority(t))
	down := tiertest.Private(t, tiertest.ValkeyCluster)
	down.Command(t, "CLUSTER", "DELSLOTS", "0")
	tiertest.Eventually(t, time.Minute, func() (bool, string) {
		info := down.Command(t, "CLUSTER", "INFO")
		text, _ := info.ToString()
		return strings.Contains(text, "cluster_state:fail"), text
	})
	frozen := tiertest.NewProxy(t, s)
	frozen.Freeze()
	refusing := tiertest.Private(t, tiertest.Valkey, "--databases", "1")
	tests := []struct {
		name, url, code, what, do string
		nodes                     int // that answer all the same
	}{
		{"nobody listens", "unix:///nowhere.sock", "unreachable", "the server cannot be reached: ", "check the address", 0},
		{"a wrong password", strings.Replace(guest.At(proxy), "@", "x@", 1), "auth", "WRONGPASS", "check them in the URL", 0},
		{"an unknown authority", sealed.With(), "tls", "no trusted connection: ", "check ca", 0},
		{"a frozen server", frozen.URL(), "unreachable", "no reply", "check the server's load", 0},
		{"a cluster that is down", down.URL(), "cluster", "the cluster does not serve this slot: ", "check CLUSTER INFO", 1},
		{"no such database", refusing.URL() + "?db=3", "refused", "out of range", "its reply says why", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tier.Dial(t.Context(), tt.url, tier.Options{CallTimeout: time.Second})
			found, ok := doctor.Refused(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, tt.code, found.Code, "%v", err)
			require.Equal(t, doctor.Error, found.Severity)
			require.Contains(t, found.What, tt.what)
			require.Contains(t, found.Do, tt.do)
			r, err := doctor.ExamineNodes(t.Context(), tt.url, tier.Options{CallTimeout: time.Second}, doctor.Marks{})
			require.NoError(t, err)
			require.Equal(t, tt.nodes, r.Nodes)
			require.Len(t, coded(r, "cluster"), tt.nodes)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := tier.Dial(ctx, s.URL(), tier.Options{})
	_, ok := doctor.Refused(err)
	require.False(t, ok)
}
