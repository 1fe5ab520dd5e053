package main

import (
	"encoding/json"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// jobJSON is a job; of one that is done, what it came to.
type jobJSON struct {
	Job         codec.ID        `json:"job"`
	Queue       string          `json:"queue"`
	State       queue.State     `json:"state"`
	Lane        string          `json:"lane,omitempty"`
	Attempts    int             `json:"attempts"`
	At          string          `json:"at,omitempty"`
	Worker      string          `json:"worker,omitempty"`
	Idle        float64         `json:"idle_seconds,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Unique      string          `json:"unique,omitempty"`
	Terms       *termsJSON      `json:"terms,omitempty"`
	Parent      string          `json:"parent,omitempty"`
	ParentQueue string          `json:"parent_queue,omitempty"`
	Message     json.RawMessage `json:"message,omitempty"`
	Error       string          `json:"error,omitempty"`
	Raw         []byte          `json:"raw,omitempty"` // of one that cannot be decoded: base64
	Result      *string         `json:"result,omitempty"`
	Children    []childJSON     `json:"children,omitempty"`
	// Of one that is shown by itself.
	Progress   string `json:"progress,omitempty"`
	ProgressAt string `json:"progress_at,omitempty"`
	LogLines   int    `json:"log_lines,omitempty"`
}

// termsJSON is what a job asks of its worker.
type termsJSON struct {
	MaxAttempts int      `json:"max_attempts,omitempty"`
	Backoff     float64  `json:"backoff_seconds,omitempty"`
	MaxBackoff  float64  `json:"max_backoff_seconds,omitempty"`
	Timeout     float64  `json:"timeout_seconds,omitempty"`
	Deadline    string   `json:"deadline,omitempty"`
	Keep        float64  `json:"keep_seconds,omitempty"`
	Tags        []string `json:"tags,omitempty"`
}

// childJSON is a child of a job in a flow, with those that it waits for in turn.
type childJSON struct {
	Job      codec.ID           `json:"job"`
	Queue    string             `json:"queue"`
	Type     string             `json:"type,omitempty"`
	Outcome  queue.ChildOutcome `json:"outcome,omitempty"` // not of one that is enqueued now
	State    queue.State        `json:"state,omitempty"`   // of one that is there
	Result   *string            `json:"result,omitempty"`
	Reason   string             `json:"reason,omitempty"`
	Children []childJSON        `json:"children,omitempty"`
}

func jobOf(name string, i *queue.Info) jobJSON {
	j := jobJSON{
		Job: i.ID, Queue: name, State: i.State, Lane: i.Lane, Attempts: i.Attempts, At: timeText(i.At), Worker: i.Worker, Idle: i.Idle.Seconds(), Reason: i.Reason,
		Unique: i.Unique, Terms: termsOf(i.Terms), Parent: idText(i.Parent), ParentQueue: i.ParentQueue,
	}
	if i.Err != nil {
		j.Error, j.Raw = oneLine(i.Err), i.Raw
		return j
	}
	j.Message = show.AppendMessage(nil, &i.Message)
	return j
}

// deliveredJob is a job as its worker has it.
func deliveredJob(name string, d *consumer.Delivery) jobJSON {
	return jobJSON{
		Job: d.ID, Queue: name, State: queue.Active, Attempts: d.Attempt, Terms: termsOf(d.Terms), Message: show.AppendMessage(nil, &d.Message),
	}
}

// termsOf is nil for terms that ask for nothing.
func termsOf(t *tier.Terms) *termsJSON {
	if t == nil {
		return nil
	}
	return &termsJSON{t.MaxAttempts, t.Backoff.Seconds(), t.MaxBackoff.Seconds(), t.Timeout.Seconds(), timeText(t.Deadline), t.Keep.Seconds(), t.Tags}
}

// childOf is a child as its parent knows it.
func childOf(c *queue.Child) childJSON {
	j := childJSON{Job: c.ID, Queue: c.Queue, Outcome: c.Outcome, Reason: c.Reason}
	if c.Outcome == queue.ChildCompleted {
		j.Result = new(string)
		*j.Result = string(c.Result)
	}
	return j
}
