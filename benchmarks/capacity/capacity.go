package capacity

import (
	"errors"
	"fmt"
	"time"

	"github.com/echomq/pipeline/codec"
)

// ErrLoad is matched by every refusal of a Load.
var ErrLoad = errors.New("capacity: bad load")

// MaxSize is the most bytes of data that a message of a Load may have.
const MaxSize = 8 << 20

// Load is what is written to a stream and read from it.
type Load struct {
	// Size is how many bytes of data a message has; Key, Type and Headers how many bytes these have. A header of 20 bytes that has
	// a name of 10 counts 30.
	Size, Key, Type, Headers int
	// Rate is how many messages come a second, and Keep how long each stays.
	Rate float64
	Keep time.Duration
	// Pack is how many messages share an entry; 0 or 1: one. Compressed is what compression leaves of a pack, 0.3 of JSON for
	// instance; 0: it is not compressed.
	Pack       int
	Compressed float64
	// Groups is how many groups read all messages, and settle them.
	Groups int
	// Replicas is how many replicas the server has.
	Replicas int
}

// Estimate is what a load takes.
type Estimate struct {
	// Encoded is how many bytes a message has with its envelope.
	Encoded int `json:"encoded_bytes"`
	// PerMessage is the server's memory for a message, as MEMORY USAGE says it.
	PerMessage float64 `json:"memory_bytes_per_message"`
	// Messages are those that are kept, and Memory what they take.
	Messages float64 `json:"messages"`
	Memory   float64 `json:"memory_bytes"`
	// NetworkIn and NetworkOut are of the server, bytes a second, replicas among its clients.
	NetworkIn  float64 `json:"network_in_bytes_per_second"`
	NetworkOut float64 `json:"network_out_bytes_per_second"`
	// File is how fast an append-only file grows, bytes a second. FileMost is how much of the disk it takes while all messages are
	// there: the server rewrites it when it has twice the size, as it does by default, and the new one is written beside it.
	File     float64 `json:"file_bytes_per_second"`
	FileMost float64 `json:"file_bytes_at_most"`
}

// What commands take beside the message, in bytes, where names have about 10 letters.
const (
	fileAppend  = 105 // XADD
	fileRead    = 220 // XCLAIM, which stands for what a group was given
	fileAck     = 28  // one more id of an XACK
	sentAppend  = 86  // XADD in a transaction
	toldID      = 33  // its reply: that it stands in line, and its id
	sentArg     = 9   // one more argument of a script, which small packs are; its reply is that of all of a call
	sentPack    = 470 // a large pack in a transaction, with the script that makes room for it
	sentMessage = 7   // a message's part of the script that notes the receipt of 500
	largePack   = 8 << 10
	sentID      = 27  // one more id of an XACK
	sentEntry   = 49  // an entry of a reply: its id, its field, lengths
	streamNode  = 272 // what MEMORY USAGE counts for a node of a log beside its entries
	nodeBytes   = 4096
	nodeEntries = 100
	nodeHead    = 20
)

func (l *Load) validate() error {
	for _, f := range []struct {
		name    string
		ok      bool
		allowed string
	}{
		{"Size", l.Size >= 0 && l.Size <= MaxSize, "0 to 8388608"},
		{"Rate", l.Rate > 0, "above 0"},
		{"Keep", l.Keep > 0, "above 0"},
		{"Pack", l.Pack >= 0 && l.Pack <= codec.MaxPack, "0 to 4096"},
		{"Compressed", l.Compressed >= 0 && l.Compressed <= 1, "0 to 1"},
		{"Compressed", l.Compressed == 0 || l.Pack > 1, "0: only packs are compressed"},
		{"Groups", l.Groups >= 0, "0 or more"},
		{"Replicas", l.Replicas >= 0, "0 or more"},
	} {
		if !f.ok {
			return fmt.Errorf("%w: %s: want %s", ErrLoad, f.name, f.allowed)
		}
	}
	return nil
}

// Estimate is what the load takes. The error is ErrLoad, or says what no message may have.
func (l Load) Estimate() (e Estimate, err error) {
	if err := l.validate(); err != nil {
		return e, err
	}
	m := codec.Message{Type: string(make([]byte, l.Type)), Key: string(make([]byte, l.Key)), Data: make([]byte, l.Size)}
	encoded, err := codec.AppendMessage(nil, &m)
	if err != nil {
		return e, err
	}
	e.Encoded = len(encoded) + l.Headers
	pack := max(1, l.Pack)
	value := e.Encoded * pack
	if l.Compressed > 0 {
		value = int(float64(value) * l.Compressed)
	}
	n := float64(pack)
	e.PerMessage = entryMemory(value) / n
	e.Messages = l.Rate * l.Keep.Seconds()
	e.Memory = e.PerMessage * e.Messages

	entries, groups := l.Rate/n, float64(l.Groups)
	file := float64(value+fileAppend) + groups*(fileRead+fileAck)
	e.File = entries * file
	e.FileMost = 3 * e.Memory
	sent, told := sentAppend, toldID
	switch {
	case l.Pack > 1 && value < largePack:
		sent, told = sentArg, 0
	case l.Pack > 1:
		sent = sentPack + sentMessage*l.Pack
	}
	e.NetworkIn = entries * (float64(value+sent) + groups*sentID)
	e.NetworkOut = entries * (float64(told) + groups*float64(value+sentEntry) + float64(l.Replicas)*file)
	return e, nil
}

// entryMemory is what an entry with a value of so many bytes takes, in a log of many. The server packs entries into nodes until the next
// would pass 4096 bytes, or it has 100; the allocator gives each node a size of its classes.
func entryMemory(value int) float64 {
	entry := 10 + value + head(value) + tail(value)
	n := 1
	if room := nodeBytes - nodeHead - value - 1; room > 0 {
		n = min(nodeEntries, 1+room/entry)
	}
	return float64(class(nodeHead+n*entry)+streamNode) / float64(n)
}

// head and tail are the lengths before and behind a text in a node.
func head(text int) int {
	switch {
	case text < 64:
		return 1
	case text < 4096:
		return 2
	}
	return 5
}

func tail(text int) int {
	n := 1
	for whole := text + head(text); whole > 127; whole >>= 7 {
		n++
	}
	return n
}

// class is the size that the allocator gives: four to each doubling.
func class(n int) int {
	step := 16
	for n > 8*step {
		step *= 2
	}
	return (n + step - 1) / step * step
}
