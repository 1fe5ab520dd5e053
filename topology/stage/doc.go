// Package stage is what a topology does with messages: the stages between streams, the sources before them and the sinks
// behind them. [Config], [SourceConfig] and [SinkConfig] declare them, as YAML or in Go; their Check finds every error
// before anything runs, with its place in the declaration and in the expression.
//
// A stage owns its input by a cursor. What it appends, the state that it keeps and the checkpoint are one commit, so that
// inside a scope each message has its effect exactly once, whatever dies; see docs/stages.md.
//
// The package knows no documents and reads no files of its own: package topology does.
package stage
