// Package mix makes random sequences of writes, as scripts of conformance/differential/script that can be played on two
// servers and compared: pods, claims, volumes, Services, quotas, limits, classes, roles and others, in a few namespaces,
// valid and invalid, in the order of a seed.
//
// A [Move] is what stays together: a write, with what was read for it and what must pass after it. [Generate] makes the
// moves of a seed. [Script] puts moves into a script, [Text] is the file of that script, and [Shrink] looks for fewer
// moves that show the same.
//
// A script knows nothing of what a server answers: names, addresses and amounts are from small sets, so that objects meet;
// what only a server knows ($obj, $rv, $uid with a digit) is kept by the script. $ns begins the names of all that is not in
// a namespace.
package mix
