// Package gapless has cert-manager's three programs, made from its packages.
//
// A program is a main package that calls what cert-manager's own main of that name calls.
// cert-manager's own are in modules without versions (cmd/controller and so on), which no
// proxy has; and the packages that they call are internal to it, which is why the path of this
// module begins with cert-manager's. The controller has the issuers SelfSigned and CA only:
// the module of the Venafi issuer is not to be had, and the other ones need servers of others.
package gapless
