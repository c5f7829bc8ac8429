package serve

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/apiserver/stream"
)

// WebServer returns an HTTP server for a limit.Listener, with streams requests at once on a connection. Watches may be
// open for hours, so only headers have a timeout; dead peers are detected by pings (HTTP/2) and by the
// timeout of each write (HTTP/1.1). Each handshake uses what current returns then.
func WebServer(handler http.Handler, current func() *tls.Config, streams int, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		TLSConfig:         limit.TLS(current),
		ReadHeaderTimeout: 10 * time.Second, // also of a handshake
		IdleTimeout:       90 * time.Second,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			stream.BoundUnsent(conn) // also of HTTP/2, whose clients choose their windows
			return limit.NewContext(ctx, conn)
		},
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: streams, // each watch of an informer is a stream
			// 16 KiB, the least that the protocol allows: a frame is read as a whole before its
			// bytes count as a body's, so a larger one could wait for the credit that only it
			// can earn (limit.Conn).
			MaxReadFrameSize: 16 << 10,
			SendPingTimeout:  30 * time.Second,
			PingTimeout:      15 * time.Second,
			WriteByteTimeout: 30 * time.Second,
		},
	}
}
