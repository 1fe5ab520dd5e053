package consumer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
)

// TestVerdictOf: the verdict is read off an error however it is wrapped, and the first one counts.
func TestVerdictOf(t *testing.T) {
	plain := errors.New("mailbox full")
	tests := []struct {
		name  string
		err   error
		want  consumer.Verdict
		pause time.Duration
		word  string
	}{
		{"nil", nil, consumer.VerdictSettle, 0, "settle"},
		{"an error", plain, consumer.VerdictRetry, 0, "retry"},
		{"permanent", consumer.Permanent(plain), consumer.VerdictPermanent, 0, "permanent"},
		{"later", consumer.RetryAfter(plain, time.Minute), consumer.VerdictRetryAfter, time.Minute, "retry after"},
		{"at once", consumer.RetryAfter(plain, -1), consumer.VerdictRetryAfter, 0, "retry after"},
		{"snoozed", consumer.Snooze(time.Hour), consumer.VerdictSnooze, time.Hour, "snooze"},
		{"of two, the outer", consumer.Permanent(consumer.Snooze(time.Hour)), consumer.VerdictPermanent, 0, "permanent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wrapped := []error{tt.err}
			if tt.err != nil {
				wrapped = append(wrapped, fmt.Errorf("order 17: %w", tt.err), errors.Join(plain, tt.err))
			}
			for _, err := range wrapped {
				v, pause := consumer.VerdictOf(err)
				require.Equal(t, tt.want, v)
				require.Equal(t, tt.pause, pause)
				require.Equal(t, tt.word, v.String())
			}
		})
	}
}
