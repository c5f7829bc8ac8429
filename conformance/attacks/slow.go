package attacks

import (
	"context"
	"io"
	"time"
)

// trickle opens connections, says the beginning of a request on each, and then a byte
// every few seconds.
func trickle(by credential, text string, short, full int) func(context.Context, *Attacker) error {
	return func(ctx context.Context, a *Attacker) error {
		return a.parallel(ctx, a.size(short, full), func(ctx context.Context) error {
			conn, err := a.secure(ctx, by, "http/1.1")
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			gone := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, conn)
				if err == nil {
					err = io.EOF
				}
				gone <- err
			}()
			_, err = io.WriteString(conn, text)
			for err == nil {
				select {
				case err = <-gone:
					return err
				case <-time.After(2 * time.Second):
					_, err = io.WriteString(conn, "x")
				}
			}
			return err
		})
	}
}

// slowHeaders is Slowloris.
func slowHeaders() Attack {
	return Attack{
		Name: "slow-headers", About: "5 000 anonymous connections whose headers come a byte in 2 s",
		OnConnections: true,
		Short:         14 * time.Second, Full: 30 * time.Second, Expected: []string{"closed"},
		run: trickle(anonymous, "GET /api HTTP/1.1\r\nHost: x\r\nX-Slow: ", 200, 5000),
	}
}

// slowBodies is R-U-Dead-Yet, by a client with a certificate.
func slowBodies() Attack {
	return Attack{
		Name: "slow-bodies", About: "2 000 connections of a client with a certificate, whose bodies come a byte in 2 s",
		Short: 14 * time.Second, Full: 30 * time.Second, Refused: []string{"slow_body", "bodies"}, Expected: []string{"closed"},
		run: trickle(identified,
			"POST "+configMaps+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n{", 300,
			2000),
	}
}
