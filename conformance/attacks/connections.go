package attacks

import (
	"context"
	"io"
	"time"
)

// idleConnections opens connections and says nothing.
func idleConnections() Attack {
	return Attack{
		Name: "idle-connections", About: "20 000 anonymous connections of TLS that say nothing",
		OnConnections: true,
		Short:         5 * time.Second, Full: 30 * time.Second, Processes: 2, Refused: []string{"anonymous_connections"},
		Expected: []string{"closed"},
		run: func(ctx context.Context, a *Attacker) error {
			return a.parallel(ctx, a.size(1500, 20000), func(ctx context.Context) error {
				conn, err := a.secure(ctx, anonymous, "h2")
				if err != nil {
					return err
				}
				defer func() { _ = conn.Close() }()
				if _, err = io.Copy(io.Discard, conn); err == nil {
					err = io.EOF
				}
				a.count("closed")
				<-ctx.Done()
				return err
			})
		},
	}
}

// handshakes opens connections, shakes hands and leaves.
func handshakes() Attack {
	return Attack{
		Name: "handshakes", About: "64 clients without certificates that shake hands and leave, again and again",
		OnConnections: true,
		Short:         2 * time.Second, Full: 10 * time.Second,
		run: func(ctx context.Context, a *Attacker) error {
			return a.parallel(ctx, 64, func(ctx context.Context) error {
				conn, err := a.secure(ctx, anonymous, "h2")
				if err != nil {
					return err
				}
				return conn.Close()
			})
		},
	}
}
