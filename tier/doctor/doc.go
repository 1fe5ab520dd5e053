// Package doctor finds what is wrong with a deployment, or will be, and says what to do.
//
// [Examine] asks the servers for facts, and changes nothing on them; [Diagnose] makes findings of facts, and asks nobody.
// What the user may not look at is a finding too, so that a partial answer says that it is partial. It walks over all
// streams and groups of the scopes that it is given: it is for a person, or for a check every few minutes.
package doctor
