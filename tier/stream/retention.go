package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/tier"
)

// Retention says what of a stream may go. An entry goes when one of the first four says so, and everybody is through with it:
// groups, cursors, what they have parked, and the archive. The zero value lets nothing go.
type Retention struct {
	MaxLength int64         // entries that stay, the newest; a pack is one. 0: no bound
	MaxAge    time.Duration // since it was appended, by the server's clock, in ms. 0: no bound
	MaxBytes  int64         // of the server's memory that the log takes, as the server estimates it. 0: no bound
	Settled   bool          // what everybody is through with goes; of a stream that nobody consumes nothing does
	// Exact takes away the last entry that may go. Without it, what stays may be a node of the server's more, 100 entries as
	// a rule, and costs it less.
	Exact bool
	// HardCap is of how many entries the oldest go whoever holds them; then those from whom they were taken are counted, by
	// name. 0: there is none. Below what the others leave, consumers lose what they are merely late with.
	HardCap int64
	// Retire is after how long without a sign of life a group is deleted that has something to do: 0 is never, else a second
	// at least, and twice the group's lease. What it had not settled is nobody's then; a group whose consumers are only down for so long has
	// lost its place.
	Retire time.Duration
	// Archive is the address of the object store that the stream is archived to, "s3://bucket/prefix?region=eu-west-1": what
	// it does not have does not go. No credentials: the process that archives has its own. Empty: there is no archive, and of one
	// that there was, nothing is known.
	Archive string
	// SegmentBytes is how much of the server's memory the entries of a segment take, about. 0: DefaultSegmentBytes.
	SegmentBytes int64
	// SegmentAge is how old the oldest entry gets before a segment is made though it is small. 0: DefaultSegmentAge.
	SegmentAge time.Duration
	// ArchiveAge is how long the archive keeps a segment after its last entry. 0: for ever.
	ArchiveAge time.Duration
}

// Of a policy that has an archive, and does not say.
const (
	DefaultSegmentBytes = 64 << 20
	DefaultSegmentAge   = time.Hour
)

// ErrRetention: a policy that breaks a stated rule, or that this version cannot read.
var ErrRetention = errors.New("stream: not a policy of retention")

// words are those of a policy, in their order.
func (r Retention) words() []string {
	var words []string
	number := func(word string, n int64) {
		if n != 0 {
			words = append(words, word+"="+strconv.FormatInt(n, 10))
		}
	}
	flag := func(word string, is bool) {
		if is {
			words = append(words, word)
		}
	}
	number("max-length", r.MaxLength)
	number("max-age", r.MaxAge.Milliseconds())
	number("max-bytes", r.MaxBytes)
	flag("settled", r.Settled)
	flag("exact", r.Exact)
	number("hard-cap", r.HardCap)
	number("retire", r.Retire.Milliseconds())
	if r.Archive != "" {
		words = append(words, "archive="+r.Archive)
	}
	number("segment-bytes", r.SegmentBytes)
	number("segment-age", r.SegmentAge.Milliseconds())
	number("archive-age", r.ArchiveAge.Milliseconds())
	return words
}

// String is the policy as the scope's hash has it: "max-length=1000 settled".
func (r Retention) String() string { return strings.Join(r.words(), " ") }

// ParseRetention reads a policy as the scope's hash has it. A word of a newer version is an error: it may be one that
// protects. ErrRetention.
func ParseRetention(text string) (Retention, error) {
	var r Retention
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch name {
		case "max-length":
			r.MaxLength = n
		case "max-age":
			r.MaxAge = time.Duration(n) * time.Millisecond
		case "max-bytes":
			r.MaxBytes = n
		case "settled":
			r.Settled, err = true, nil
		case "exact":
			r.Exact, err = true, nil
		case "hard-cap":
			r.HardCap = n
		case "retire":
			r.Retire = time.Duration(n) * time.Millisecond
		case "archive":
			r.Archive, err = value, nil
		case "segment-bytes":
			r.SegmentBytes = n
		case "segment-age":
			r.SegmentAge = time.Duration(n) * time.Millisecond
		case "archive-age":
			r.ArchiveAge = time.Duration(n) * time.Millisecond
		default:
			err = errors.New("a word that this version does not know: upgrade it")
		}
		if err != nil {
			return Retention{}, fmt.Errorf("%w: %.64q in %.200q: %w", ErrRetention, word, text, err)
		}
	}
	if r.String() != text {
		return Retention{}, fmt.Errorf("%w: %.200q", ErrRetention, text)
	}
	if err := r.Validate(); err != nil {
		return Retention{}, err
	}
	return r, nil
}

// maxAge is what a policy's ms can be without an overflow.
const maxAge = 100 * 365 * 24 * time.Hour

// Validate says which rule the policy breaks. ErrRetention.
func (r Retention) Validate() error {
	reason := ""
	switch {
	case r.MaxLength < 0 || r.MaxAge < 0 || r.MaxBytes < 0 || r.HardCap < 0 || r.SegmentBytes < 0 || r.SegmentAge < 0 || r.ArchiveAge < 0:
		reason = "a bound is below 0"
	case !spans(r.MaxAge, r.Retire, r.SegmentAge, r.ArchiveAge):
		reason = "a length of time is no number of milliseconds up to a hundred years"
	case r.Archive == "" && (r.SegmentBytes > 0 || r.SegmentAge > 0 || r.ArchiveAge > 0):
		reason = "it says how to archive, and not where"
	case r.Retire < 0 || 0 < r.Retire && r.Retire < time.Second:
		reason = "groups are retired after a second at least"
	case r.HardCap > 0 && r.HardCap < r.MaxLength:
		reason = "the hard cap is below the max length: it would take what is to stay"
	case r == Retention{Exact: true}:
		reason = "exact says how, and nothing says what: give a bound or settled"
	case r.Archive != "":
		reason = noStore(r.Archive)
	}
	if reason == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrRetention, reason)
}

func spans(all ...time.Duration) bool {
	return !slices.ContainsFunc(all, func(d time.Duration) bool { return d%time.Millisecond != 0 || d > maxAge })
}

// maxStore is how long the address of a store may be, in bytes.
const maxStore = 1024

// noStore is why a text is no address of a store, without the text: it may hold what must not be shown. Everybody who reads the
// scope reads a policy, so it may not.
func noStore(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme == "" || u.Opaque != "" || len(address) > maxStore || strings.IndexFunc(address, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0:
		return "the archive's store is no address like s3://bucket/prefix or file:///path"
	case u.User != nil:
		return "the archive's address holds credentials: give them to the process that archives"
	}
	for name := range u.Query() {
		for _, secret := range []string{"key", "secret", "token", "password", "credential", "sig"} {
			if strings.Contains(strings.ToLower(name), secret) {
				return "the archive's address holds credentials: give them to the process that archives"
			}
		}
	}
	return ""
}

// SetRetention declares what of a stream may go, in its scope's hash, where every client sees it; the zero value: nothing.
// It takes nothing away: the sweeper of the scope does. One that is at work with the policy before trims nothing more by it.
// With another archive, all that the log has is held until that has it, and what went before is lost to it, and said to be.
//
// Errors: ErrRetention, ErrNoStream, ErrStreamRemoved.
func SetRetention(ctx context.Context, client *tier.Client, address string, r Retention) error {
	p, err := newPlace(client, address)
	if err != nil {
		return err
	}
	if err := r.Validate(); err != nil {
		return err
	}
	m, err := client.Run(ctx, tier.Call{
		Script: setRetentionScript, Keys: []string{tier.ScopeKey(p.addr.Scope), p.addr.RetentionKey(), p.addr.ArchivedKey(), p.addr.LogKey()},
		Args: []string{tier.StreamField(p.addr.Stream), tier.RetentionField(p.addr.Stream), r.String(), r.Archive},
	})
	if err != nil {
		return err
	}
	code, err := m.ToString()
	switch {
	case err != nil:
		return tier.Wrap("set_retention", p.addr.LogKey(), err)
	case code == "absent":
		return fmt.Errorf("%w (%s)", ErrNoStream, p.addr)
	case code == "removed":
		return fmt.Errorf("%w (%s)", ErrStreamRemoved, p.addr)
	}
	return nil
}

// Retained is a stream that has a policy. With Err, this version cannot read it, and nothing of the stream may go.
type Retained struct {
	Address tier.Address
	Policy  Retention
	Err     error
}

// Retentions lists the streams of a scope that have a policy, by name.
func Retentions(ctx context.Context, client *tier.Client, scope string) ([]Retained, error) {
	if err := tier.CheckName("scope", scope); err != nil {
		return nil, err
	}
	var list []Retained
	err := client.ScanHash(ctx, tier.ScopeKey(scope), func(field, value string) {
		if name, ok := strings.CutPrefix(field, tier.RetentionField("")); ok && tier.CheckName("stream", name) == nil {
			r, err := ParseRetention(value)
			list = append(list, Retained{tier.Address{Scope: scope, Stream: name}, r, err})
		}
	})
	slices.SortFunc(list, func(a, b Retained) int { return cmp.Compare(a.Address.Stream, b.Address.Stream) })
	return slices.CompactFunc(list, func(a, b Retained) bool { return a.Address == b.Address }), err
}

// RetentionOf is the policy of one stream; the zero value: it has none. ErrRetention: it has one that this version cannot
// read.
func RetentionOf(ctx context.Context, client *tier.Client, address string) (Retention, error) {
	p, err := newPlace(client, address)
	if err != nil {
		return Retention{}, err
	}
	text, err := hashField(ctx, client, tier.ScopeKey(p.addr.Scope), tier.RetentionField(p.addr.Stream))
	if err != nil || text == "" {
		return Retention{}, err
	}
	return ParseRetention(text)
}
