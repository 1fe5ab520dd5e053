package stage

// SourceConfig declares where messages come from: To, and exactly one of File, Stdin, HTTP and Watermill.
type SourceConfig struct {
	// To is the stream that messages are appended to.
	To string `yaml:"to"`

	File  *File  `yaml:"file,omitempty"`
	Stdin *Stdin `yaml:"stdin,omitempty"`
	HTTP  *HTTP  `yaml:"http,omitempty"`
	// Watermill is a topic of any Watermill subscriber that a program in Go gives a name.
	Watermill *Watermill `yaml:"watermill,omitempty"`

	// Data, Key, Type and Headers make the message of what was read, which they see as data. Default: it is the data.
	Data    Expr            `yaml:"data,omitempty"`
	Key     Expr            `yaml:"key,omitempty"`
	Type    Expr            `yaml:"type,omitempty"`
	Headers map[string]Expr `yaml:"headers,omitempty"`
}

// File is one that is read to its end, or written. A source goes on where the last run has ended, exactly.
type File struct {
	Path string `yaml:"path"`
	// Format is lines, jsonl, csv, whose first line has the names, or, of a source, parquet. Default: by the name's ending.
	Format string `yaml:"format,omitempty"`
	// Watermark closes all windows behind the last line, by a message of type emq.watermark. Only for a source.
	Watermark bool `yaml:"watermark,omitempty"`
}

// Stdin is standard input, which cannot be read again: what was read and not appended when the process dies is lost.
type Stdin struct {
	// Format is lines, jsonl or csv. Default lines.
	Format string `yaml:"format,omitempty"`
}

// HTTP takes messages by POST: one JSON value, or lines of them (application/x-ndjson).
type HTTP struct {
	// Listen is host:port. Only a loopback address, unless Public says so.
	Listen string `yaml:"listen"`
	Public bool   `yaml:"public,omitempty"`
	// Path of the endpoint. Default /.
	Path string `yaml:"path,omitempty"`
	// Token is asked for as a bearer token. Needed when public.
	Token string `yaml:"token,omitempty"`
	// MaxBody is how large a body may be. Default 1 MiB, at most 8 MiB.
	MaxBody Size `yaml:"max_body,omitempty"`
	// Timeout is how long a request may take to send its body. Default 10s.
	Timeout Duration `yaml:"timeout,omitempty"`
	// InFlight is how many requests are taken at the same time; more are told 429. Default 64, at most 4096.
	InFlight int `yaml:"in_flight,omitempty"`
}

// Watermill is a topic of a subscriber or publisher that the program that runs the document gives by name, see Options.
type Watermill struct {
	Name  string `yaml:"name"`
	Topic string `yaml:"topic"`
}

// SinkConfig declares where messages go: From, and exactly one of File, Stdout, Webhook and Watermill.
type SinkConfig struct {
	// From is the stream that is read.
	From string `yaml:"from"`

	// File has a line for each message, and each once: what a crash has left half written is written again.
	File      *File      `yaml:"file,omitempty"`
	Stdout    *Stdout    `yaml:"stdout,omitempty"`
	Webhook   *Webhook   `yaml:"webhook,omitempty"`
	Watermill *Watermill `yaml:"watermill,omitempty"`

	// Lease is how long the owner may be silent before another takes over. Default 30s.
	Lease Duration `yaml:"lease,omitempty"`
}

// Stdout is standard output.
type Stdout struct {
	// Format is lines, the data as it is, or jsonl, the whole message. Default jsonl.
	Format string `yaml:"format,omitempty"`
}
