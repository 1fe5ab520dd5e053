package doctor

import (
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Facts are what Examine found out. Diagnose needs nothing else.
type Facts struct {
	Wire       string // what stands at the version key
	Nodes      []Node
	Registry   Registry
	Scopes     []Scope
	Rights     []Lack
	Unexamined []Unexamined
}

// Node is a server of the deployment.
type Node struct {
	Addr    string
	Silent  string            // why it does not answer; empty: it does
	Info    map[string]string // INFO; nil: not known
	Config  map[string]string // appendfsync, save; nil: not known
	Cluster map[string]string // CLUSTER INFO; nil: no cluster, or not known
	Failed  []string          // addresses of nodes that it, with the others, holds for failed
	Absent  []string          // commands that it does not have
	Skew    time.Duration     // its clock less the host's
	Blur    time.Duration     // by which Skew may be wrong, either way; 0: the clock is not known
}

// Registry is the deployment's registry of node numbers.
type Registry struct {
	Scopes  map[string]string // scope -> number
	Holders map[string]string // number of a scope -> scope
	Leased  int               // numbers of processes that mint now
}

// Scope is a scope with its streams.
type Scope struct {
	Name    string
	Known   bool // its hash exists
	Broken  []tier.Finding
	Streams []Stream
}

// Stream is a stream with its groups and cursors.
type Stream struct {
	stream.Info
	Bytes    int64     // of memory; 0: not known
	Now      time.Time // the clock of its node
	Groups   []stream.GroupDetail
	Cursors  []stream.CursorInfo
	Retained bool // it has a policy of retention
}

// Lack is a right that the user does not have.
type Lack struct {
	Scope, Role string // the role that needs it, of Roles
	Meant       bool   // the user is to have the role
	What        string // "the command XADD", "the key ..."
}

// Unexamined is what could not be looked at.
type Unexamined struct {
	Where, What, Why, Do string
	All                  bool // for lack of it no scope was examined
}

// Marks are where a finding begins. Zero fields are the defaults.
type Marks struct {
	// StreamBytes is the memory of one stream without a policy from which it is warned of. Default 1 GiB.
	StreamBytes int64
	// Silence is how long nobody must have worked on a group with something to do. Default 1 hour.
	Silence time.Duration
	// Consumers is how many silent ones without entries a group may have. Default 100.
	Consumers int
	// Skew is by how much clocks may differ. Default 1 second.
	Skew time.Duration
}

func (m *Marks) setDefaults() {
	if m.StreamBytes == 0 {
		m.StreamBytes = 1 << 30
	}
	if m.Silence == 0 {
		m.Silence = time.Hour
	}
	if m.Consumers == 0 {
		m.Consumers = 100
	}
	if m.Skew == 0 {
		m.Skew = time.Second
	}
}

// lastMs is the last millisecond that ids of 41 bits reach: that of append.lua.
const lastMs = codec.Epoch + 1<<41 - 1
