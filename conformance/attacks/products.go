package attacks

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The attacks of this file are single requests whose parts multiply each other, and what follows from bounds on
// those.

const podsPath = "/api/v1/namespaces/default/pods"

// costlySelectors asks what every known user may ask, with as many requirements as fit.
func costlySelectors() Attack {
	return Attack{
		Name: "costly-selectors", About: "8 clients that send access reviews with 49 900 requirements for labels",
		Short: 6 * time.Second, Full: 15 * time.Second, Expected: []string{"201"},
		run: func(ctx context.Context, a *Attacker) error {
			var requirements strings.Builder
			for i := range 49_900 {
				fmt.Fprintf(&requirements, `,{"key":"l%d","operator":"Exists"}`, i)
			}
			body := `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",` +
				`"spec":{"resourceAttributes":{"verb":"list","resource":"pods",` +
				`"labelSelector":{"requirements":[` + requirements.String()[1:] + `]}}}}`
			return repeat(ctx, a, 8, func(int) request {
				return request{http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", jsonMedia, body}
			})
		},
	}
}

// longOrders sends strategic merge patches whose lists of the order are longer than the lists.
func longOrders() Attack {
	return Attack{
		Name:  "long-orders",
		About: "8 clients that send strategic merge patches of 1.5 MB, whose lists of the order have three times the items",
		Short: 6 * time.Second, Full: 15 * time.Second, Expected: []string{"413"},
		run: func(ctx context.Context, a *Attacker) error {
			web := a.web()
			defer web.CloseIdleConnections()
			if _, err := a.send(ctx, web, request{
				http.MethodPost, podsPath, jsonMedia,
				`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"attacked"},"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"a"}]}]}}`,
			}); err != nil {
				return err
			}
			const items = 13_000
			var order, list strings.Builder
			for i := range 3 * items {
				fmt.Fprintf(&order, `,{"name":"variable-%06d"}`, i)
			}
			for i := range items {
				fmt.Fprintf(&list, `,{"name":"variable-%06d","value":"x"}`, 2*items+i)
			}
			body := `{"spec":{"containers":[{"name":"a","$setElementOrder/env":[` + order.String()[1:] + `],"env":[` +
				list.String()[1:] + `]}]}}`
			return repeat(ctx, a, 8, func(int) request {
				return request{http.MethodPatch, podsPath + "/attacked" + dryRun, "application/strategic-merge-patch+json", body}
			})
		},
	}
}

// burst sends many large bodies at once, and waits for all answers.
func burst() Attack {
	return Attack{
		Name: "burst", About: "bursts of 48 bodies of 900 KB at once, each after the answers to the one before",
		Short: 6 * time.Second, Full: 15 * time.Second, Expected: []string{"201"},
		run: func(ctx context.Context, a *Attacker) error {
			web := a.web()
			defer web.CloseIdleConnections()
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"burst-"},"data":{"a":%q}}`,
				strings.Repeat("x", 900_000))
			for ctx.Err() == nil {
				const bodies = 48
				all := make(chan error, bodies)
				for range bodies {
					go func() { // ends with its answer
						_, err := a.send(context.WithoutCancel(ctx), web, request{
							http.MethodPost, configMaps + dryRun, jsonMedia, body,
						})
						all <- err
					}()
				}
				for range bodies {
					if err := <-all; err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}
