package attacks

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	heavyClients = 64
	// manyClients are so many that the last of them waits for too long, and is refused.
	manyClients = 4 * heavyClients
	// refusedWithin is enough for requests that wait for a processor to be refused,
	// which they are after 15 s, also where attackers get little of one themselves.
	refusedWithin = 25 * time.Second
	// dryRun asks for all of the work, so that nothing is left afterwards but memory.
	dryRun = "?dryRun=All"
)

// repeat sends requests from so many clients, one after the other on each.
func repeat(ctx context.Context, a *Attacker, clients int, next func(i int) request) error {
	web := a.web()
	defer web.CloseIdleConnections()
	free := numbers(clients)
	return a.parallel(ctx, clients, func(ctx context.Context) error {
		i := <-free
		for ; ctx.Err() == nil; i += clients {
			code, err := a.send(ctx, web, next(i))
			if err != nil {
				free <- i
				return err
			}
			if code == http.StatusTooManyRequests {
				pause(ctx, 10*time.Millisecond)
			}
		}
		free <- i
		return nil
	})
}

// numbers hands out the numbers below n.
func numbers(n int) chan int {
	c := make(chan int, n)
	for i := range n {
		c <- i
	}
	return c
}

// wideBodies sends objects of the largest size with as many members as fit.
func wideBodies() Attack {
	return Attack{
		Name: "wide-bodies", About: "64 clients that send objects of 3 MB with 220 000 members, as JSON and as patches",
		Short: refusedWithin, Full: 15 * time.Second, Refused: []string{"processor", "bodies"}, Expected: []string{"429"},
		run: func(ctx context.Context, a *Attacker) error {
			var members, labels strings.Builder
			for i := range 220_000 {
				fmt.Fprintf(&members, `,"%06d":""`, i)
			}
			for i := range 100_000 {
				fmt.Fprintf(&labels, `,"l%06d":"v"`, i)
			}
			return repeat(ctx, a, heavyClients, func(i int) request {
				switch i % 3 {
				case 0:
					return request{http.MethodPost, configMaps + dryRun, jsonMedia, fmt.Sprintf(
						`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"wide-"},"data":{"a":""%s}}`,
						members.String())}
				case 1:
					return request{http.MethodPost, configMaps + dryRun, jsonMedia, fmt.Sprintf(
						`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"wide-","labels":{"a":"b"%s}}}`,
						labels.String())}
				default:
					return request{
						http.MethodPatch, configMaps + "/attacked" + dryRun, "application/merge-patch+json", fmt.Sprintf(
							`{"metadata":{"annotations":{"a":"b"%s}}}`, labels.String()),
					}
				}
			})
		},
	}
}

// deepBodies sends objects that are nested as deep as a body can be.
func deepBodies() Attack {
	return Attack{
		Name: "deep-bodies", About: "64 clients that send custom resources and YAML, 9 000 levels deep, and 1 MB of brackets",
		Short: 4 * time.Second, Full: 10 * time.Second, Refused: []string{"depth"}, Expected: []string{"400"},
		run: func(ctx context.Context, a *Attacker) error {
			deep := strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000)
			list := strings.Repeat(`[`, 9000) + strings.Repeat("]", 9000)
			return repeat(ctx, a, heavyClients, func(i int) request {
				of := func(spec, media string) request {
					return request{http.MethodPost, looseResource + dryRun, media, fmt.Sprintf(
						`{"apiVersion":"attacks.example.com/v1","kind":"Loose","metadata":{"generateName":"deep-"},"spec":%s}`,
						spec)}
				}
				switch i % 5 {
				case 0:
					return of(deep, jsonMedia)
				case 1:
					return of(list, jsonMedia)
				case 2:
					return of(deep, "application/yaml")
				case 3:
					return of(strings.Repeat("[", 1<<20), "application/yaml")
				default:
					return request{
						http.MethodPatch, configMaps + "/attacked" + dryRun, "application/merge-patch+json",
						`{"data":` + deep + `}`,
					}
				}
			})
		},
	}
}
