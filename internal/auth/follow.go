package auth

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"
)

const (
	// lookEvery is how often a file of configuration is read to see whether it has changed. Upstream watches it, and
	// looks every minute.
	lookEvery = time.Second
	// retryAfter is how long it takes at least until a file that may become right by itself is tried again.
	retryAfter = 10 * time.Second
)

// ErrMayPass is an error of Followed.Take that may pass without a change of the file.
var ErrMayPass = errors.New("it is tried again")

// Followed is a file of configuration that counts anew when it changes.
type Followed struct {
	Path string
	// Taken is the content that is in force.
	Taken []byte
	// Take puts a content in force. After an error the former one stays; it is tried again if it changes, or if the
	// error is ErrMayPass.
	Take   func(ctx context.Context, content []byte) error
	Logger *slog.Logger
	// Reloads counts what Take has done; nil: nothing does.
	Reloads *Reloads
}

// Run follows the file until ctx ends. It logs what it does.
func (f Followed) Run(ctx context.Context) {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	var again time.Time // when the content is tried that was refused and may pass
	unread := ""        // what was logged of a file that cannot be read
	seen := f.Taken     // what the file held at the last look
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		content, err := os.ReadFile(f.Path)
		switch {
		case err != nil && err.Error() != unread:
			unread = err.Error()
			f.log(ctx, err)
			continue
		case err != nil:
			continue
		}
		unread = ""
		if !bytes.Equal(content, seen) { // perhaps it is being written: half a list may be a list
			seen = content
			continue
		}
		if bytes.Equal(content, f.Taken) && (again.IsZero() || time.Now().Before(again)) {
			continue
		}
		f.Taken, again = content, time.Time{}
		err = f.Take(ctx, content)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrMayPass) {
			again = time.Now().Add(retryAfter)
		}
		f.log(ctx, err)
	}
}

func (f Followed) log(ctx context.Context, err error) {
	f.Reloads.note(err)
	if err != nil {
		f.Logger.LogAttrs(ctx, slog.LevelError, "a file of configuration was not read again: the former content stays in force",
			slog.String("file", f.Path), slog.Any("error", err))
		return
	}
	f.Logger.LogAttrs(ctx, slog.LevelInfo, "a file of configuration was read again", slog.String("file", f.Path))
}
