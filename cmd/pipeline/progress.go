package main

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
)

// progress shows on a terminal how far long work is. All methods of a nil one do
// nothing, which is how it is when nobody looks.
type progress struct {
	bar   *progressbar.ProgressBar
	what  string // it counts: "message"
	begun time.Time
}

// startProgress begins to show progress towards total, -1 when that is not known; what
// is the word for one of those that are counted. Standard output must not be a terminal that messages are being written to.
func (a *app) startProgress(total int64, what string) {
	if a.quiet || !isTerminal(a.err) {
		return
	}
	a.progress.Store(&progress{begun: time.Now(), what: what, bar: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.err),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(total > 0),
		progressbar.OptionClearOnFinish(),
	)})
}

// endProgress takes the progress off the terminal for good.
func (a *app) endProgress() {
	a.progress.Load().clear()
	a.progress.Store(nil)
}

// at says that the work is at some part of its total, and how many that is.
func (p *progress) at(part int64, n int) {
	if p == nil {
		return
	}
	p.bar.Describe(fmt.Sprintf("%s, %s", show.Count(n, p.what), show.Rate(n, time.Since(p.begun))))
	_ = p.bar.Set64(part)
}

// clear takes the progress off the terminal, so that a line can be written; the
// next step shows it again.
func (p *progress) clear() {
	if p != nil {
		_ = p.bar.Clear()
	}
}
