package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// twin is a dumb server: a list of messages, and for each producer the last number and the receipts that were to be kept.
type twin struct {
	log       []string
	last      map[string]uint64
	receipts  map[string][]stream.Answer // by producer, of the numbers from 1; zero: not kept
	full      bool
	readOnly  bool
	undeclare bool
	removed   bool
	saved     *twin // what a restart goes back to
}

func newTwin() *twin {
	return &twin{last: map[string]uint64{}, receipts: map[string][]stream.Answer{}}
}

func (s *twin) run(c tier.Call) stream.Answer {
	number, err := strconv.ParseUint(c.Args[0], 10, 64)
	if err != nil {
		panic(err)
	}
	keep, err := strconv.Atoi(c.Args[7])
	if err != nil {
		panic(err)
	}
	producer, messages := c.Keys[1], c.Args[8:]
	last, known := s.last[producer]
	switch {
	case s.full:
		return refused("OOM", tier.ErrStoreFull)
	case s.readOnly:
		return refused("READONLY", tier.ErrReadOnly)
	case s.removed:
		return stream.Answer{Code: "removed"}
	case s.undeclare:
		return stream.Answer{Code: "undeclared"}
	case known && number <= last && s.receipts[producer][number-1].Code != "":
		a := s.receipts[producer][number-1]
		a.Code = "dup"
		return a
	case !known && number != 1:
		return stream.Answer{Code: "unknown"}
	case known && number != last+1:
		return stream.Answer{Code: "order"}
	}
	a := stream.Answer{Code: "ok", First: codec.EntryID{Ms: uint64(len(s.log)) + codec.Epoch}, Count: len(messages)}
	s.log = append(s.log, messages...)
	s.last[producer] = number
	receipts := append(s.receipts[producer], a)
	clear(receipts[:max(0, len(receipts)-1-keep)])
	s.receipts[producer] = receipts
	return a
}

func (s *twin) save() {
	receipts := map[string][]stream.Answer{}
	for p, r := range s.receipts {
		receipts[p] = slices.Clone(r)
	}
	s.saved = &twin{log: slices.Clone(s.log), last: maps.Clone(s.last), receipts: receipts}
}

func refused(op string, class *tier.Class) stream.Answer {
	return stream.Answer{Err: &tier.Error{Op: op, Class: class, Err: errors.New(op)}}
}

func lost(err error) stream.Answer { return stream.Answer{Err: tier.Wrap("append", "", err)} }

// TestSenderModel: whatever is lost, refused or restarted, and however late the answers are, each message stands in the
// log at most once and in the order of the session; one that was reported is there, with its receipt; one that was
// reported to have failed is not; and a number that was sent is never given to other messages (B74).
func TestSenderModel(t *testing.T) {
	for range 10 { // times rapid's 100: the rare ends of it are worth the half second
		rapid.Check(t, checkSender)
	}
}

func checkSender(t *rapid.T) {
	m := &senderModel{t: t, server: newTwin(), sender: stream.NewSender(), sent: map[string]string{}}
	t.Repeat(map[string]func(*rapid.T){
		"": m.check,
		"add": func(t *rapid.T) {
			if m.sender.Sending() == 8 {
				t.Skip("full")
			}
			m.add(rapid.IntRange(1, 3).Draw(t, "messages"))
		},
		"round": func(t *rapid.T) { m.round(t, time.Hour, nil) },
		"late":  func(t *rapid.T) { m.round(t, -1, nil) }, // RetryFor is over
		"cut":   m.cut,
		"not declared": func(t *rapid.T) {
			m.round(t, time.Hour, tier.Wrap("declare", "", rapid.SampledFrom([]error{io.EOF, context.DeadlineExceeded, context.Canceled}).Draw(t, "err")))
		},
		"full":      func(*rapid.T) { m.server.full = !m.server.full },
		"read-only": func(*rapid.T) { m.server.readOnly = !m.server.readOnly },
		"undeclare": func(t *rapid.T) { m.server.undeclare = true; m.round(t, time.Hour, nil); m.server.undeclare = false },
		"remove":    func(t *rapid.T) { m.server.removed = !m.server.removed },
		"forget": func(t *rapid.T) { // the keys live for longer than anything is tried again
			clear(m.server.last)
			clear(m.server.receipts)
			m.round(t, -1, nil)
		},
		"save": func(*rapid.T) { m.server.save() },
		"restart": func(*rapid.T) {
			if m.server.saved == nil {
				return
			}
			m.rewound = append(m.rewound, len(m.server.saved.log))
			saved := m.server.saved
			m.server.log, m.server.last, m.server.receipts = saved.log, saved.last, saved.receipts
			m.server.save()
		},
	})
	m.healed, m.server.full, m.server.readOnly, m.server.removed = true, false, false, false
	for range 10 {
		m.round(t, time.Hour, nil)
	}
	require.Zero(t, m.sender.Sending(), "stuck")
	m.check(t)
}

type senderModel struct {
	t       *rapid.T
	server  *twin
	sender  *stream.Sender
	batches []*modelBatch
	n       int
	sent    map[string]string // "producer number" -> messages
	rewound []int             // lengths that the log was cut to by restarts
	healed  bool              // nothing goes wrong any more
}

type modelBatch struct {
	messages []string
	handle   *stream.Batch
	at       int // of the log when it was reported, to tell what a restart has lost
	reported bool
	restarts int // when it was reported
}

func (m *senderModel) add(n int) {
	b := &modelBatch{}
	for range n {
		b.messages = append(b.messages, fmt.Sprint("m", m.n))
		m.n++
	}
	b.handle = m.sender.Add(b.messages...)
	m.batches = append(m.batches, b)
}

func (m *senderModel) note(calls []tier.Call) {
	for _, c := range calls {
		key := c.Keys[1] + " " + c.Args[0]
		messages := strings.Join(c.Args[8:], ",")
		if before, ok := m.sent[key]; ok {
			require.Equal(m.t, before, messages, "the number was given to other messages")
		}
		m.sent[key] = messages
	}
}

func (m *senderModel) round(t *rapid.T, retryFor time.Duration, failed error) {
	require.NoError(t, m.sender.Round(retryFor, func(calls []tier.Call) []stream.Answer {
		m.note(calls)
		answers := make([]stream.Answer, len(calls))
		run := m.inOrder(t, len(calls))
		for i, c := range calls {
			answers[i] = run(c)
		}
		return answers
	}, failed))
}

// inOrder runs calls one after another; between two of them the server may become full, or be no more.
func (m *senderModel) inOrder(t *rapid.T, calls int) func(tier.Call) stream.Answer {
	flip := -1
	if calls > 1 && !m.healed {
		flip = rapid.IntRange(-4, calls-1).Draw(t, "full or not from")
	}
	n := 0
	return func(c tier.Call) stream.Answer {
		if n == flip {
			m.server.full = !m.server.full
		}
		n++
		return m.server.run(c)
	}
}

// cut is a round whose connection breaks: some calls were run, of these some were answered.
func (m *senderModel) cut(t *rapid.T) {
	require.NoError(t, m.sender.Round(time.Hour, func(calls []tier.Call) []stream.Answer {
		m.note(calls)
		ran := rapid.IntRange(0, len(calls)).Draw(t, "ran")
		answered := rapid.IntRange(0, ran).Draw(t, "answered")
		err := rapid.SampledFrom([]error{io.EOF, context.DeadlineExceeded, context.Canceled}).Draw(t, "err")
		answers := make([]stream.Answer, len(calls))
		run := m.inOrder(t, ran)
		for i, c := range calls {
			answers[i] = lost(err)
			if i < ran {
				if a := run(c); i < answered {
					answers[i] = a
				}
			}
		}
		return answers
	}, nil))
}

func (m *senderModel) check(t *rapid.T) {
	at := map[string]int{}
	for i, message := range m.server.log {
		_, twice := at[message]
		require.False(t, twice, "%s stands twice", message)
		at[message] = i
	}
	before := -1
	for _, b := range m.batches {
		done, first, err := b.handle.Done()
		if done && !b.reported {
			b.reported, b.restarts = true, len(m.rewound)
			b.at = int(first.Ms - codec.Epoch)
		}
		i, in := at[b.messages[0]]
		for k, message := range b.messages {
			j, also := at[message]
			require.Equal(t, in, also, "a batch is all or none")
			require.True(t, !in || j == i+k, "and stands together")
		}
		if in {
			require.Greater(t, i, before, "order")
			before = i
		}
		switch {
		case !done:
		case err == nil && !m.mayBeLost(b):
			require.True(t, in, "%s was reported and is lost", b.messages[0])
			require.Equal(t, b.at, i, "receipt")
		case err != nil && !tier.OutcomeUnknown(err):
			require.False(t, in, "%s was reported to have failed (%v)", b.messages[0], err)
		}
	}
}

// mayBeLost: a restart since has cut the log below it.
func (m *senderModel) mayBeLost(b *modelBatch) bool {
	for _, length := range m.rewound[b.restarts:] {
		if length <= b.at {
			return true
		}
	}
	return false
}

// TestSenderKeepsWhatFollows: calls behind one that failed are refused by the server, since they would overtake it. They
// are sent again under a new producer, and go in.
func TestSenderKeepsWhatFollows(t *testing.T) {
	server, sender := newTwin(), stream.NewSender()
	var producers []string
	round := func(fullFor int) {
		require.NoError(t, sender.Round(time.Hour, func(calls []tier.Call) []stream.Answer {
			answers := make([]stream.Answer, len(calls))
			for i, c := range calls {
				producers = append(producers, c.Keys[1])
				server.full = i < fullFor
				answers[i] = server.run(c)
			}
			return answers
		}, nil))
	}
	sender.Add("first")
	round(0)
	var batches []*stream.Batch
	for _, m := range []string{"a", "b", "c"} {
		batches = append(batches, sender.Add(m))
	}
	round(1)
	round(0)
	_, _, err := batches[0].Done()
	require.ErrorIs(t, err, tier.ErrStoreFull)
	for _, b := range batches[1:] {
		done, _, err := b.Done()
		require.True(t, done)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"first", "b", "c"}, server.log)
	require.Len(t, producers, 6)
	require.NotEqual(t, producers[0], producers[5])
}

// TestSenderDoesNotRenumber: what may be in the log is not sent under a new producer, which would append it again: when
// the old one ends, it ends with its outcome unknown.
func TestSenderDoesNotRenumber(t *testing.T) {
	server, sender := newTwin(), stream.NewSender()
	a, b := sender.Add("a"), sender.Add("b")
	for _, full := range []bool{false, true, false} {
		server.full = full
		require.NoError(t, sender.Round(time.Hour, func(calls []tier.Call) []stream.Answer {
			answers := make([]stream.Answer, len(calls))
			for i, c := range calls {
				if answers[i] = server.run(c); !full || i > 0 {
					answers[i] = lost(io.EOF)
				}
			}
			return answers
		}, nil))
	}
	for _, batch := range []*stream.Batch{a, b} {
		done, _, err := batch.Done()
		require.True(t, done)
		require.True(t, tier.OutcomeUnknown(err), "%v", err)
	}
	require.Equal(t, []string{"a", "b"}, server.log)
}

// TestSenderKeepsReceipts: of calls whose replies were lost the receipts are still there when they are sent again, whatever was
// answered between them; of those that were answered the server keeps none.
func TestSenderKeepsReceipts(t *testing.T) {
	server, sender := newTwin(), stream.NewSender()
	round := func(serve func(i int, c tier.Call) stream.Answer) (codes string) {
		require.NoError(t, sender.Round(time.Hour, func(calls []tier.Call) (answers []stream.Answer) {
			for i, c := range calls {
				a := serve(i, c)
				codes += a.Code + c.Args[7] + " "
				answers = append(answers, a)
			}
			return answers
		}, nil))
		return codes
	}
	all := func(_ int, c tier.Call) stream.Answer { return server.run(c) }
	for i := range 3 {
		sender.Add(strconv.Itoa(i))
	}
	round(func(i int, c tier.Call) stream.Answer {
		if a := server.run(c); i == 1 {
			return a
		}
		return lost(io.EOF)
	})
	sender.Add("3")
	require.Equal(t, "dup0 dup2 ok3 ", round(all))
	sender.Add("4")
	require.Equal(t, "ok0 ", round(all))
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, server.log)
}
