package dial

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap/zapcore"
)

// zapCore logs the messages of etcd's client at debug level: the backend reports what matters, and a client
// that retries is loud.
type zapCore struct{ to *slog.Logger }

func (c zapCore) Enabled(zapcore.Level) bool {
	return c.to.Enabled(context.Background(), slog.LevelDebug)
}

func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	return zapCore{c.to.With(attributes(fields)...)}
}

func (c zapCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

func (c zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.to.Debug("etcd client: "+e.Message, append(attributes(fields), "severity", e.Level.String())...)
	return nil
}

func (c zapCore) Sync() error { return nil }

func attributes(fields []zapcore.Field) (attrs []any) {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(values)
	}
	for _, name := range slices.Sorted(maps.Keys(values.Fields)) {
		attrs = append(attrs, name, values.Fields[name])
	}
	return attrs
}
