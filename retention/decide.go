package retention

import "github.com/echomq/pipeline/tier/stream"

// Decide says what of a log with so much in it goes by the policy, if nobody needs it. A bound in bytes becomes one in entries,
// by what an entry weighs on average: it is met about, and better at each beat. Where the bytes are not known (0), it lets
// nothing go. Of a log that is too large for its bound by one entry alone, that one stays.
func Decide(policy stream.Retention, length, bytes int64) stream.Trim {
	trim := stream.Trim{Keep: -1, Age: policy.MaxAge, Settled: policy.Settled, Exact: policy.Exact}
	if policy.MaxLength > 0 {
		trim.Keep = policy.MaxLength
	}
	if policy.MaxBytes > 0 && bytes > policy.MaxBytes {
		fit := max(1, int64(float64(length)*(float64(policy.MaxBytes)/float64(bytes))))
		if trim.Keep < 0 || fit < trim.Keep {
			trim.Keep = fit
		}
	}
	return trim
}
