package attacks

import (
	"context"
	"net/http"
	"time"
)

// manyWatches opens watches of what the bystander changes.
func manyWatches() Attack {
	return Attack{
		Name: "watches", About: "24 000 watches of a client with a certificate, on what the bystander changes",
		OnConnections: true,
		Short:         6 * time.Second, Full: 30 * time.Second,
		Flags: []string{"--max-watches", "1000"}, Refused: []string{"watches"}, Expected: []string{"429"},
		run: func(ctx context.Context, a *Attacker) error {
			const each = 200
			return a.parallel(ctx, a.size(1600, 24000)/each, func(ctx context.Context) error {
				r, err := a.http2(ctx, identified)
				if err != nil {
					return err
				}
				defer r.close()
				if err := r.fr.WriteWindowUpdate(0, 1<<30); err != nil {
					return err
				}
				for range each {
					if _, err := r.get("/api/v1/configmaps?watch=1"); err != nil {
						return err
					}
				}
				if err := r.flush(); err != nil {
					return err
				}
				<-r.ended
				return r.why
			})
		},
	}
}

// manyRequests lists as fast as it can.
func manyRequests() Attack {
	return Attack{
		Name: "requests", About: "500 connections of a client with a certificate that list everything, all the time",
		Short: 3 * time.Second, Full: 10 * time.Second, Expected: []string{"200"},
		run: func(ctx context.Context, a *Attacker) error {
			web := a.web()
			defer web.CloseIdleConnections()
			return a.parallel(ctx, a.size(200, 500), func(ctx context.Context) error {
				code, err := a.send(ctx, web, request{http.MethodGet, "/api/v1/configmaps", jsonMedia, ""})
				if code == http.StatusTooManyRequests {
					pause(ctx, 10*time.Millisecond)
				}
				return err
			})
		},
	}
}
