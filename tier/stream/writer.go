package stream

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Writer appends messages to one stream and is safe for concurrent use. Callers on many goroutines share round trips; what
// one goroutine appends stands in its order. A call whose reply is lost is repeated without effect on the log.
type Writer struct {
	place   *place
	cfg     WriterConfig
	metrics *writerMetrics

	mu    sync.Mutex
	queue []*batch // not yet sent; the last may still take messages
	last  int      // messages of the one that was sent last
	large bool     // they were many, and went by a transaction

	shelf shelf

	line   chan struct{} // held by the one who sends
	out    sender        // of whoever holds the line, as direct is
	direct direct

	room    *semaphore.Weighted // bytes that Publish may still queue
	wake    chan struct{}       // something was published
	ready   chan struct{}       // closed when Run has begun
	begun   atomic.Bool         // Run was called
	running bool                // under mu: Publish is served
}

// NewWriter checks the configuration. It sends nothing; the stream is declared by the first append.
func NewWriter(client *tier.Client, cfg WriterConfig) (*Writer, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	place, err := newPlace(client, cfg.Address)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		place:   place,
		cfg:     cfg,
		metrics: newWriterMetrics(cfg.Registerer, place.addr),
		line:    make(chan struct{}, 1),
		room:    semaphore.NewWeighted(int64(cfg.MaxQueued)),
		direct:  newDirect(client),
		wake:    make(chan struct{}, 1),
		ready:   make(chan struct{}),
	}
	w.out.mint = cfg.Mint
	w.out.newProducer(cfg.Producer)
	return w, nil
}

// Declare makes the stream known, as the first append does, and returns what its ids are derived from.
//
// Errors: *BrandTakenError, *BrandDiffersError, ErrBrandsExhausted, *KindDiffersError, tier.ErrScopesExhausted,
// *tier.NodeConflictError.
func (w *Writer) Declare(ctx context.Context) (codec.Identity, error) {
	d, err := w.place.declare(ctx, w.cfg.Brand, w.cfg.kind())
	return d.Identity, err
}

// Append appends one message and waits for its receipt.
//
// Errors: *TooLargeError and *codec.LimitError before anything is sent; tier.ErrStoreFull and other classes of package
// tier, with nothing written, or tier.OutcomeUnknown(err), as tier.ErrNotReplicated is; ErrStreamRemoved; ErrIDSpace; those
// of Declare; of an exclusive writer codec.ErrNodeLease and ErrNonMonotonic.
func (w *Writer) Append(ctx context.Context, m codec.Message) (codec.ID, error) {
	if w.cfg.Producer != "" {
		return codec.ID{}, errNamed
	}
	if err := ctx.Err(); err != nil {
		return codec.ID{}, w.notSent(err)
	}
	size, err := w.size(&m)
	if err != nil {
		return codec.ID{}, err
	}
	w.mu.Lock()
	b, first, err := w.put(&m, size)
	if err != nil {
		w.mu.Unlock()
		return codec.ID{}, err
	}
	at := len(b.messages) - 1
	w.mu.Unlock()
	if err := w.wait(ctx, b, first); err != nil {
		return codec.ID{}, err
	}
	return b.id(at), nil
}

var errNamed = fmt.Errorf("%w: a named producer appends with AppendAt", ErrBadCall)

// AppendBatch appends up to 4096 messages, 8 MiB encoded, all or none, one after another.
func (w *Writer) AppendBatch(ctx context.Context, ms []codec.Message) ([]codec.ID, error) {
	if w.cfg.Producer != "" {
		return nil, errNamed
	}
	return w.append(ctx, ms, parcel{})
}

// AppendAt appends as a named producer: position is that of ms in its source, above 0 and below 2^53, and grows from
// call to call. Repeating a position has no effect: one of the last eight is answered with its ids, one below them with
// ErrAlreadyAppended. A position may be left out for good, so after an error the caller repeats that position before it
// goes on; calls that waited behind the failed one are not sent.
//
// Who cannot say that each process cuts the source into the same calls uses AppendAfter.
func (w *Writer) AppendAt(ctx context.Context, position uint64, ms []codec.Message) ([]codec.ID, error) {
	if w.cfg.Producer == "" || position == 0 || position >= 1<<53 {
		return nil, fmt.Errorf("%w: AppendAt needs a named producer and a position above 0 and below 2^53", ErrBadCall)
	}
	return w.append(ctx, ms, parcel{number: position})
}

// AppendAfter is AppendAt for a call that follows another: after is the position of that one, 0 when it is the first. It is
// refused with ErrProducerMoved, and nothing is written, unless the producer's last position is that one. So calls of two processes, of
// which one was thought dead, append nothing twice, wherever each of them begins and ends.
func (w *Writer) AppendAfter(ctx context.Context, after, position uint64, ms []codec.Message) ([]codec.ID, error) {
	if w.cfg.Producer == "" || position <= after || position >= 1<<53 {
		return nil, fmt.Errorf("%w: AppendAfter needs a named producer and a position above the one before it and below 2^53", ErrBadCall)
	}
	return w.append(ctx, ms, parcel{number: position, follows: strconv.FormatUint(after, 10)})
}

func (w *Writer) append(ctx context.Context, ms []codec.Message, as parcel) ([]codec.ID, error) {
	if err := ctx.Err(); err != nil {
		return nil, w.notSent(err)
	}
	p, err := w.encode(ms)
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	p.number, p.follows, p.only = as.number, as.follows, as.only
	w.mu.Lock()
	b, first := w.open(p, len(ms))
	offset := len(b.messages)
	b.messages = append(b.messages, p.messages...)
	b.keys = append(b.keys, p.keys...)
	w.mu.Unlock()
	if err := w.wait(ctx, b, first); err != nil {
		return nil, err
	}
	return b.ids(offset, len(ms)), nil
}

// put puts a message into the batch that is sent next, or after it, and counts the caller among those who wait; first says that there was
// no such batch. The message is encoded here, since few bytes take less time than who waits for mu to wake up. The caller holds mu.
func (w *Writer) put(m *codec.Message, size int) (b *batch, first bool, err error) {
	b, first = w.open(parcel{bytes: size}, 1)
	shelf := w.shelf.room
	if b.memory != nil {
		shelf = b.memory.room
	}
	text, err := w.encodeInto(shelf(size), m)
	b.bytes += len(text) - size
	if err != nil {
		if b.waiters--; first {
			w.queue = w.queue[:len(w.queue)-1]
		}
		return nil, false, err
	}
	b.messages = append(b.messages, text)
	if w.cfg.Keyed {
		b.keys = append(b.keys, m.Key)
	}
	return b, first, nil
}

// open is the batch that takes n messages next, but for the messages themselves. One that is begun has room for as many as
// the last one had. The caller holds mu.
func (w *Writer) open(p parcel, n int) (b *batch, first bool) {
	if last := len(w.queue); last > 0 && w.queue[last-1].fits(p, n) {
		b = w.queue[last-1]
	} else {
		b = &batch{parcel: parcel{number: p.number, follows: p.follows, only: p.only}, most: w.most(), size: w.cfg.Pack, compression: w.cfg.Compression, turn: newTurn()}
		if w.large {
			b.memory = memories.Get().(*memory)
			b.messages, b.notify = slices.Grow(b.memory.messages, w.last), b.memory.notify
		} else {
			b.messages = make([]string, 0, max(n, w.last))
		}
		w.queue, first = append(w.queue, b), true
	}
	b.bytes += p.bytes
	b.waiters++
	return b, first
}

// most is how many messages callers share in a batch that is begun. A writer's first call is a script's, in which packs cost the server three times
// as much as in a transaction: so that has one, and the others wait for it. The caller holds mu.
func (w *Writer) most() int {
	switch {
	case w.cfg.Pack == 1:
		return shareMessages
	case w.last == 0 && len(w.queue) == 0:
		return w.cfg.Pack
	}
	return MaxBatch
}

// wait waits for the batch. Whose turn it is takes the line, and sends for all who wait: of the callers of Append who began the batch.
// Run does it for those of Publish.
func (w *Writer) wait(ctx context.Context, b *batch, turn bool) error {
	for !turn {
		select {
		case _, turn = <-b.next:
			if !turn {
				return b.err
			}
		case <-ctx.Done():
			return w.abandon(ctx, b, false)
		}
	}
	select {
	case <-b.next:
		return b.err
	case <-ctx.Done():
		return w.abandon(ctx, b, true)
	case w.line <- struct{}{}:
		runtime.Gosched() // others who are ready to append share the call
	}
	for !b.over() && ctx.Err() == nil {
		w.round(ctx)
		w.out.tell()
	}
	<-w.line
	if b.over() {
		return b.err
	}
	return w.abandon(ctx, b, true)
}

// abandon stops waiting. A batch that nobody waits for and that was not sent is dropped.
func (w *Writer) abandon(ctx context.Context, b *batch, turn bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.over() {
		return b.err
	}
	b.waiters--
	for i, queued := range w.queue {
		if queued == b && b.waiters == 0 {
			w.queue = append(w.queue[:i:i], w.queue[i+1:]...)
			w.dropBehind(b.number)
			return w.notSent(context.Cause(ctx))
		}
	}
	if turn && !b.pass() {
		return b.err
	}
	return &tier.Error{Op: "append", Key: w.place.addr.LogKey(), Class: tier.ErrCancelled, Err: context.Cause(ctx)}
}

func (w *Writer) notSent(err error) error {
	return fmt.Errorf("stream: append to %s: not sent: %w", w.place.addr, err)
}

// round sends what waits, in one write, and sorts out the answers. The caller holds the line, until its ctx ends: then
// what was sent is left to the next one, who sends it again, without effect on the log. It does not tell the callers of
// what has ended: who sends more tells them while the server works.
func (w *Writer) round(ctx context.Context) {
	if !tier.Pause(ctx, w.out.pause) {
		return
	}
	w.out.begin(w.cfg.RetryFor)
	defer w.metrics.round(&w.out)
	defer func() { w.troubled(w.out.failures, w.out.trouble) }()
	defer w.dropOvertaking()
	w.dropOvertaking() // what begin has ended
	if w.direct.keep(&w.out); w.direct.handed == nil {
		w.refill(0)
	}
	if len(w.out.sent) == 0 {
		return
	}
	identity, err := w.identity(ctx, w.out.declare)
	if err != nil {
		w.out.failed(err, w.cfg.RetryFor)
		w.out.tell() // the next one may fail here, too
		return
	}
	err = w.out.assign(identity)
	s := sending{sender: &w.out, addr: w.place.addr, identity: identity}
	var answers []answer
	if err == nil {
		answers, err = w.send(ctx, s)
	}
	if err != nil {
		w.out.failed(err, 0)
		return
	}
	w.out.declare = false
	w.out.absorb(answers, w.cfg.RetryFor)
	w.sendNext(ctx, s)
}

// sendNext sends what waits, if it is much, before the callers of what was answered are told: so server and client work at the same time.
func (w *Writer) sendNext(ctx context.Context, s sending) {
	if !w.direct.open {
		return
	}
	if w.direct.handed == nil && len(w.out.sent) == 0 {
		w.more(s.identity, 0, directMessages, directBytes)
	}
	w.direct.start(ctx, s)
}

// more takes from the queue what is to go behind the first so many batches, if it has so many entries, or bytes of them.
func (w *Writer) more(identity declared, sent, entries, bytes int) []*batch {
	if !w.waiting(entries, bytes) {
		return nil
	}
	w.refill(sent)
	if w.out.assign(identity) != nil { // the next round says so
		return nil
	}
	return w.out.sent[sent:]
}

// waiting reports whether so many entries are queued, or bytes of them.
func (w *Writer) waiting(entries, bytes int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.queue {
		entries, bytes = entries-b.entries(), bytes-b.bytes
	}
	return entries <= 0 || bytes <= 0
}

// durableWait is how long one write waits for replicas and disks.
const durableWait = time.Second

// send sends what has its numbers, in one write. The error says that nothing was sent.
func (w *Writer) send(ctx context.Context, s sending) ([]answer, error) {
	if w.durability() == (tier.Durability{}) {
		more := func(sent int) []*batch { return w.more(s.identity, sent, aheadEntries, aheadBytes) }
		if answers, since := w.direct.send(ctx, s, more); answers != nil {
			w.metrics.roundTrip.Observe(time.Since(since).Seconds())
			return answers, nil
		}
	}
	w.out.tell()
	calls, err := w.out.calls(w.place.addr)
	if err != nil {
		return nil, err
	}
	return w.call(ctx, calls...), nil
}

func (w *Writer) durability() tier.Durability {
	return tier.Durability{Replicas: w.cfg.Replicas, Fsync: w.cfg.Fsync}
}

// call makes calls in one write. What is not as durable as is asked is not answered yet.
func (w *Writer) call(ctx context.Context, calls ...tier.Call) []answer {
	start := time.Now()
	defer func() { w.metrics.roundTrip.Observe(time.Since(start).Seconds()) }()
	durability := w.durability()
	if durability == (tier.Durability{}) {
		return answersOf(w.place.client.RunMulti(ctx, calls...))
	}
	results, err := w.place.client.RunDurable(ctx, durability, durableWait, calls...)
	answers := answersOf(results)
	for i := range answers {
		if err != nil && answers[i].receipt.count > 0 {
			answers[i] = answer{err: err}
		}
	}
	return answers
}

var errOvertaken = errors.New("an earlier position failed: append that one first, it could not be appended after this one")

// dropOvertaking fails what waits behind a position that failed.
func (w *Writer) dropOvertaking() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropBehind(w.out.failedAt)
	w.out.failedAt = 0
}

// dropBehind fails what waits with a position above the given one, if that is one. The caller holds mu.
func (w *Writer) dropBehind(position uint64) {
	if position == 0 {
		return
	}
	kept := w.queue[:0:0]
	for _, b := range w.queue {
		if b.number > position {
			b.err = w.notSent(errOvertaken)
			b.finish()
			continue
		}
		kept = append(kept, b)
	}
	w.queue = kept
}

// identity declares the stream when that is needed: at first, and again to a server that has forgotten it.
func (w *Writer) identity(ctx context.Context, again bool) (declared, error) {
	known := w.place.declared.Load()
	if known != nil && !again {
		return *known, nil
	}
	id, err := w.place.declare(ctx, w.cfg.Brand, w.cfg.kind())
	if err == nil && again && known != nil {
		w.metrics.redeclared.Inc()
		w.place.client.Logger().Warn("the server had lost the stream, or knew it otherwise: it was declared again; what stood in it may be gone",
			"stream", w.place.addr.String(), "brand", string(id.Brand))
	}
	return id, err
}

// troubled tells once in an outage why calls are sent again.
func (w *Writer) troubled(failures int, err error) {
	if failures == 1 && err != nil {
		w.place.client.Logger().Warn("append failed, it is sent again", "stream", w.place.addr.String(), "err", err)
	}
}

// How many entries of several batches go in one write, and bytes of them: a server that is handed more at a time has them all in line
// before it runs the first, and out of its CPU's caches by then. Where a write waits for disks or replicas, it is to have more.
const (
	writeEntries = 2048
	writeBytes   = 1 << 20
	durableBytes = 4 << 20
)

// refill moves batches from the queue to those that are sent. Those of a named producer and of an exclusive writer go one
// by one: numbers and ids may leave gaps, so one that fails must not be overtaken. The first of packs goes alone, see most. Of those that are sent,
// so many at the front are on their way and do not count.
func (w *Writer) refill(sent int) {
	limit := callsInFlight
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cfg.Producer != "" || w.cfg.Exclusive || w.cfg.Pack > 1 && w.last == 0 {
		limit = 1
	}
	most := writeBytes
	if w.durability() != (tier.Durability{}) {
		most = durableBytes
	}
	entries, bytes, n := 0, 0, 0
	for _, b := range w.out.sent[sent:] {
		entries, bytes = entries+b.entries(), bytes+b.bytes
	}
	for ; n < len(w.queue) && len(w.out.sent)+n < limit; n++ {
		b := w.queue[n]
		entries, bytes = entries+b.entries(), bytes+b.bytes
		if len(w.out.sent)+n > sent && (entries > writeEntries || bytes > most) {
			break
		}
		w.last, w.large = len(b.messages), w.direct.open && len(b.messages) >= directMessages
	}
	w.out.sent = append(w.out.sent, w.queue[:n]...)
	w.queue = append(w.queue[:0:0], w.queue[n:]...)
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
