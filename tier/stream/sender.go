package stream

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// sender is the writer's side of a producer: which batches were sent under which numbers, and what the answers mean. It
// does no I/O. A number that was sent is never given to other messages: when a call fails for good, what follows goes
// on under a new producer.
type sender struct {
	producer string
	named    bool
	mint     Minter // of an exclusive writer, else nil: the server mints
	number   uint64 // last one given
	above    highest
	sent     []*batch // in order; those without a number were never sent under this producer
	ended    []*batch // whose callers are not told yet
	failures int      // rounds in a row without progress
	pause    time.Duration
	declare  bool // the server does not know the stream, or knows it otherwise
	asked    bool // a call of this producer has gone through, so that the scripts ask for no rights before they write

	// Of the last round.
	calledOff, unknown int    // batches that failed: not in the log, or perhaps
	failedAt           uint64 // the position that failed, of a named producer
	messages, bytes    int    // that are in the log
	lead               time.Duration
	trouble            error // why something is sent again
}

// newProducer starts anew. What may be in the log already cannot be sent again under other numbers: it ends with its
// outcome unknown.
func (s *sender) newProducer(name string) {
	if name != "" {
		s.producer, s.named = name, true
		return
	}
	var id [12]byte
	rand.Read(id[:])
	s.producer, s.number, s.asked = hex.EncodeToString(id[:]), 0, false
	kept := s.sent[:0]
	for _, b := range s.sent {
		if b.unknown {
			s.end(b, unknownOutcome(errNewProducer))
			continue
		}
		b.number = 0
		kept = append(kept, b)
	}
	s.sent = kept
}

var errNewProducer = errors.New("the producer's record is gone or a call before this one failed")

func unknownOutcome(err error) error {
	return &tier.Error{Op: "append", Class: tier.ErrTimeout, Err: err}
}

// assign gives the batches that are sent the first time their numbers, and compresses their packs.
func (s *sender) assign(identity declared) error {
	for _, b := range s.sent {
		if b.since.IsZero() {
			b.since = time.Now()
		}
		b.identity = identity
		if b.number == 0 && s.mint == nil {
			s.number++
			b.number = s.number
		}
		if b.compression != codec.NoCompression && b.packs() {
			if err := b.pack(); err != nil {
				return err
			}
		}
	}
	return nil
}

// calls makes the script calls of the batches.
func (s *sender) calls(addr tier.Address) ([]tier.Call, error) {
	calls := make([]tier.Call, len(s.sent))
	for i, b := range s.sent {
		var err error
		if calls[i], err = s.call(b, addr); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

func (s *sender) call(b *batch, addr tier.Address) (tier.Call, error) {
	if s.mint != nil {
		if err := s.mintFor(b); err != nil {
			return tier.Call{}, err
		}
		return b.exclusiveCall(addr), nil
	}
	if b.packs() {
		if err := b.pack(); err != nil {
			return tier.Call{}, err
		}
	}
	return b.call(addr, s), nil
}

// receipts is how many that the server has of calls before this one may still be asked for: those from the first one on
// that is not answered, and of a named producer all, since another process may repeat its positions.
func (s *sender) receipts(b *batch) int {
	if s.named {
		return callsInFlight - 1
	}
	return int(min(b.number-s.sent[0].number, callsInFlight-1))
}

// begin begins a round. It ends what nobody has sent again for too long: the producer's key may be gone, and with it the
// record that would make another sending harmless.
func (s *sender) begin(retryFor time.Duration) {
	s.calledOff, s.unknown, s.failedAt, s.messages, s.bytes, s.trouble = 0, 0, 0, 0, 0, nil
	sent := s.sent
	s.sent = s.sent[:0:0]
	for _, b := range sent {
		if b.since.IsZero() || b.age() <= retryFor {
			s.sent = append(s.sent, b)
			continue
		}
		s.end(b, giveUp(b, b.last))
	}
	if len(s.sent) < len(sent) && !s.named {
		s.newProducer("")
	}
}

// answer is what came back for one batch: an error, or the script's code and the receipt that goes with it.
type answer struct {
	code    string
	receipt receipt
	found   found // of a conflict
	err     error
}

func answersOf(results []tier.Result) []answer {
	answers := make([]answer, len(results))
	for i, r := range results {
		if answers[i].err = r.Err; r.Err == nil {
			answers[i].code, answers[i].receipt, answers[i].err = parseReceipt(r.Message)
			if answers[i].code == "conflict" {
				answers[i].found, answers[i].err = parseFound(r.Message)
			}
		}
	}
	return answers
}

// absorb takes the answers of the first batches, in order. What is done leaves; what may be repeated stays.
func (s *sender) absorb(answers []answer, retryFor time.Duration) {
	sent := s.sent
	s.sent = s.sent[:0:0]
	var wait, anew bool
	for i, b := range sent[:len(answers)] {
		code, err := answers[i].code, s.partly(b, answers[i].err)
		switch {
		case err != nil && tier.OutcomeUnknown(err):
			b.unknown = true
			fallthrough
		case err != nil:
			if !repeatable(err) || b.age() > retryFor {
				s.end(b, giveUp(b, err))
				anew = true
				continue
			}
			b.last, s.trouble = err, err
			wait = wait || tier.Classify(err) != tier.ErrCancelled
		case code == "ok", code == "dup":
			s.asked = true
			s.end(b, b.accept(answers[i].receipt))
			continue
		case code == "conflict": // which is noted under the number, so what follows goes on
			s.end(b, b.conflict(answers[i].found))
			continue
		case code == "undeclared":
			s.declare = true
		case code == "again": // by a script
		case code == "unknown", code == "order" && len(s.sent) == 0 && !anew:
			anew = true // the producer's record is gone, or older than what it acknowledged
		case code == "order": // one before it did not go through
		case code == "removed", code == "nonmonotonic": // said of what is in the log, too: the stream was removed, or trimmed, since
			s.end(b, giveUp(b, refusal(code)))
			anew = true
			continue
		default:
			s.end(b, refusal(code))
			anew = true
			continue
		}
		s.sent = append(s.sent, b)
	}
	s.sent = append(s.sent, sent[len(answers):]...)
	if anew && !s.named {
		s.newProducer("")
	}
	s.failures++
	if s.messages > 0 || !wait {
		s.failures = 0
	}
	s.pause = 0
	if s.failures > 0 {
		s.pause = tier.CallDelay(s.failures)
	}
}

// partly is the error of a call that may have been done in part: scripts ask for rights before they write in a producer's first call only.
func (s *sender) partly(b *batch, err error) error {
	if !s.asked && !s.named {
		return err
	}
	before := []string{"get", "hmget", "time", "xadd"}
	if b.packs() {
		before = append(before, "exists", "xlen", "xrevrange", "xinfo|stream")
	}
	return tier.Partly("append", "", err, before...)
}

// failed ends or keeps everything after an error that came before anything was sent.
func (s *sender) failed(err error, retryFor time.Duration) {
	err = notDeclared(err)
	answers := make([]answer, len(s.sent))
	for i, b := range s.sent {
		if b.since.IsZero() {
			b.since = time.Now()
		}
		answers[i].err = err
	}
	s.absorb(answers, retryFor)
}

// notDeclared is the error of a call that was not sent: the outcome of the declaration before it may be unknown.
func notDeclared(err error) error {
	if tier.OutcomeUnknown(err) {
		return &tier.Error{Op: "declare", Class: tier.ErrUnreachable, Err: err}
	}
	return err
}

// stop ends what was sent for Publish and not answered.
func (s *sender) stop(err error) {
	published, rest := split(s.sent)
	if len(published) == 0 {
		return
	}
	s.sent = rest
	for _, b := range published {
		s.end(b, err)
	}
	s.newProducer("")
}

func (s *sender) end(b *batch, err error) {
	if err != nil && s.named && !errors.Is(err, ErrAlreadyAppended) {
		s.failedAt = b.number
	}
	switch {
	case err == nil:
		s.messages += len(b.messages)
		s.bytes += b.bytes
		s.lead = time.Until(b.receipt.first.Time())
		if s.mint == nil {
			s.above.raise(b.receipt.last())
		}
	case tier.OutcomeUnknown(err):
		s.unknown++
	default:
		s.calledOff++
	}
	b.err = err
	s.ended = append(s.ended, b)
}

// tell tells the callers of what has ended.
func (s *sender) tell() {
	for _, b := range s.ended {
		b.finish()
	}
	clear(s.ended)
	s.ended = s.ended[:0]
}

// accept takes the receipt, if it is one for these messages.
func (b *batch) accept(r receipt) error {
	if r.count != len(b.messages) {
		return fmt.Errorf("%w: position %d has %d, not %d", ErrPositionReused, b.number, r.count, len(b.messages))
	}
	b.receipt = r
	return nil
}

// repeatable: the server may be ready later, or somebody else than the one who stopped waiting sends. A full server is
// the caller's to know at once.
func repeatable(err error) bool {
	class := tier.Classify(err)
	if class == tier.ErrCancelled {
		return true
	}
	return class != nil && class.Reaction == tier.BackOff && class != tier.ErrStoreFull && class != tier.ErrMisconf
}

var errNotRepeated = &tier.Error{Op: "append", Class: tier.ErrUnreachable, Err: errors.New("not tried again within RetryFor")}

// giveUp is the error that the callers get: of unknown outcome, if any sending was.
func giveUp(b *batch, err error) error {
	if err == nil {
		err = errNotRepeated
	}
	if b.unknown && !tier.OutcomeUnknown(err) {
		return unknownOutcome(err)
	}
	return err
}

func refusal(code string) error {
	switch code {
	case "removed":
		return ErrStreamRemoved
	case "nonmonotonic":
		return ErrNonMonotonic
	case "range":
		return ErrIDSpace
	case "past":
		return ErrAlreadyAppended
	case "moved":
		return ErrProducerMoved
	default:
		return fmt.Errorf("stream: append: unexpected reply %q", code)
	}
}
