package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// arena is where the works of a run meet their ceilings: one scope of one server.
type arena struct {
	client *tier.Client
	wire   *wire // of the ceilings
	meter  *Meter
	scope  string
	size   int
	atOnce int // 0: what the work has by itself

	data      []byte   // of a message
	records   [][]byte // data of messages that are alike, see record
	customers []string // keys of messages
	made      int      // addresses so far
}

// messageKeys is how many different keys messages have.
const messageKeys = 1000

// enter makes a scope that nobody has. The caller leaves it.
func enter(ctx context.Context, client *tier.Client, size, atOnce int) (*arena, error) {
	scope := newScope()
	return enterScope(ctx, client, scope, size, atOnce, tier.ScopeKey(scope))
}

func newScope() string { return "bench-" + strings.ToLower(rand.Text()[:10]) }

// enterScope makes an arena of a scope; what servers do is measured at those of the keys, each of another.
func enterScope(ctx context.Context, client *tier.Client, scope string, size, atOnce int, keys ...string) (a *arena, err error) {
	a = &arena{client: client, scope: scope, size: size, atOnce: atOnce, data: noise(size)}
	for i := range messageKeys {
		a.customers = append(a.customers, "customer-"+strconv.Itoa(i))
	}
	if a.wire, err = dial(ctx, client, keys[0]); err != nil {
		return nil, err
	}
	if a.meter, err = NewMeter(ctx, client, keys...); err != nil {
		a.wire.Close()
		return nil, err
	}
	return a, nil
}

func (a *arena) close() {
	a.wire.Close()
	a.meter.Close()
}

// leave removes the scope, also when ctx has ended.
func (a *arena) leave(ctx context.Context) error {
	a.close()
	if err := a.client.DropScope(context.WithoutCancel(ctx), a.scope); err != nil {
		return fmt.Errorf("bench: scope %s is left over: %w", a.scope, err)
	}
	return nil
}

// address is one that was not used before, so that nobody meets what another has left.
func (a *arena) address() tier.Address {
	a.made++
	return tier.Address{Scope: a.scope, Stream: "s" + strconv.Itoa(a.made)}
}

// delete deletes keys at once, and not on a thread that goes on while the next one is measured. A command that was cut short
// has left the connection of the ceilings of no use, so it is another's.
func (a *arena) delete(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := a.client.Do(ctx, keys[0], a.client.B().Del().Key(keys...).Build())
	return err
}

// message is the i-th of a round. All share their data.
func (a *arena) message(i int) codec.Message {
	return codec.Message{Type: "order.placed", Key: a.customers[i%len(a.customers)], Data: a.data}
}

// record is the i-th message of a round, with data as programs send them: an object in JSON.
func (a *arena) record(i int) codec.Message {
	if a.records == nil {
		a.records = records(manyRecords, a.size)
	}
	m := a.message(i)
	m.Data = a.records[i%len(a.records)]
	return m
}

// concurrency is what was asked for, or else what the work has by itself.
func (a *arena) concurrency(own int) int {
	if a.atOnce > 0 {
		return a.atOnce
	}
	return own
}

// noise is n bytes that neither compress nor repeat, and are the same in each run.
func noise(n int) []byte {
	r := mathrand.New(mathrand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(math.MaxUint8 + 1))
	}
	return b
}

// manyRecords is how many different ones there are: more than share a pack.
const manyRecords = 10_000

// records are orders in JSON, of size bytes each: what is longer is cut, what is shorter has more lines. They are the same in each run.
func records(n, size int) [][]byte {
	r := mathrand.New(mathrand.NewPCG(3, 4))
	list := make([][]byte, n)
	for i := range list {
		b := fmt.Appendf(nil, `{"order":%d,"customer":"customer-%d","placed":"2026-01-%02dT%02d:%02d:%02dZ","lines":[`,
			100_000+i, r.IntN(messageKeys), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
		for len(b) < size {
			b = fmt.Appendf(b, `{"article":"A-%d","count":%d,"price":%d.99},`, r.IntN(500), 1+r.IntN(5), r.IntN(90))
		}
		list[i] = b[:size]
	}
	return list
}

func asRefusal(err error) (tier.Refusal, bool) {
	var r tier.Refusal
	ok := errors.As(err, &r)
	return r, ok
}
