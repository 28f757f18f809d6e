/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What sockets asked for, by the backend that they were given. A socket has its notes in the set that its
 * number leads to: that takes no memory and no lock, and they are free again when it is closed. What finds no
 * room there is in the maps by socket and backend, as are notes that earlier programs made. */
#pragma once

#include "lb_maps.h"
#include "end.h"

/* Stands for a socket while its note is written. */
#define NOTE_CLAIMED (1ULL << 63)

union reverse_sk_key {
	struct reverse_sk4_key v4;
	struct reverse_sk6_key v6;
};

always_inline struct socket_set *socket_set(__u64 socket)
{
	__u32 index = socket % SOCKET_SETS;

	return bpf_map_lookup_elem(&volvox_socket, &index);
}

/* Whose a note of a set is. */
always_inline __u64 note_socket(const struct socket_set *set, int i)
{
	return *(const volatile __u64 *)&set->sockets[i];
}

always_inline void note_free(struct socket_set *set, int i)
{
	*(volatile __u64 *)&set->sockets[i] = 0;
}

always_inline bool note_is_of(const struct socket_set *set, int i, __u64 socket, const struct end *backend, int family)
{
	const struct socket_note *note = &set->notes[i];

	return note_socket(set, i) == socket && note->backend_port == backend->port && note->family == family &&
	       address_equal((const union address *)note->backend, &backend->address, family);
}

/* Writes a note into a set. Returns whether there was room. */
always_inline bool note_add(struct socket_set *set, __u64 socket, const struct end *service,
			    const struct end *backend, __be16 rev_nat, int family)
{
	for (int i = 0; i < SOCKET_NOTES; i++) {
		struct socket_note *note = &set->notes[i];

		if (note_socket(set, i) || __sync_val_compare_and_swap(&set->sockets[i], 0, NOTE_CLAIMED))
			continue;
		__builtin_memcpy(note->backend, &backend->address, 16);
		__builtin_memcpy(note->service, &service->address, 16);
		note->backend_port = backend->port;
		note->service_port = service->port;
		note->rev_nat = rev_nat;
		note->family = family;
		/* Who looks for the socket's note took turns with it since: at the socket's lock, or at the
		 * queue from which it has an answer. So this needs no order among processors. */
		keep_apart();
		*(volatile __u64 *)&set->sockets[i] = socket;
		return true;
	}
	return false;
}

enum noted {
	NOTED = 0,
	/* Not in the set. */
	NOTED_NOT = 1,
	/* In the set, and for another service. */
	NOTED_OTHERWISE = 2,
};

/* Frees the note of a socket and a backend. */
always_inline void note_drop(struct socket_set *set, __u64 socket, const struct end *backend, int family)
{
	for (int i = 0; i < SOCKET_NOTES; i++) {
		if (note_is_of(set, i, socket, backend, family))
			note_free(set, i);
	}
}

/* What a set says of a socket and a backend. */
always_inline enum noted note_says(struct socket_set *set, __u64 socket, const struct end *service,
				   const struct end *backend, __be16 rev_nat, int family)
{
	for (int i = 0; i < SOCKET_NOTES; i++) {
		const struct socket_note *note = &set->notes[i];

		if (!note_is_of(set, i, socket, backend, family))
			continue;
		return note->service_port == service->port && note->rev_nat == rev_nat &&
				       address_equal((const union address *)note->service, &service->address, family)
			       ? NOTED
			       : NOTED_OTHERWISE;
	}
	return NOTED_NOT;
}

always_inline void reverse_sk_key(union reverse_sk_key *key, __u64 socket, const struct end *backend, int family)
{
	if (family == FAMILY_IPV4) {
		key->v4 = (struct reverse_sk4_key){
			.cookie = socket,
			.address = backend->address.v4,
			.port = backend->port,
		};
	} else {
		key->v6 = (struct reverse_sk6_key){.cookie = socket, .port = backend->port};
		__builtin_memcpy(key->v6.address, &backend->address, 16);
	}
}

/* Whether the map says so already. */
always_inline bool reverse_sk_says(const union reverse_sk_key *key, const struct end *service, __be16 rev_nat,
				   int family)
{
	union address before;

	if (family == FAMILY_IPV4) {
		struct reverse_sk4_row *row = bpf_map_lookup_elem(&cilium_lb4_reverse_sk, key);

		return row && row->address == service->address.v4 && row->port == service->port &&
		       row->rev_nat == rev_nat;
	} else {
		struct reverse_sk6_row *row = bpf_map_lookup_elem(&cilium_lb6_reverse_sk, key);

		if (!row)
			return false;
		__builtin_memcpy(&before, row->address, 16);
		return address_equal(&before, &service->address, family) && row->port == service->port &&
		       row->rev_nat == rev_nat;
	}
}

/* Writes the row of a map, if it is not there: looking first is cheaper by far. */
always_inline long reverse_sk_put(__u64 socket, const struct end *service, const struct end *backend,
				  __be16 rev_nat, int family)
{
	union reverse_sk_key key __attribute__((aligned(8)));

	reverse_sk_key(&key, socket, backend, family);
	if (reverse_sk_says(&key, service, rev_nat, family))
		return 0;
	if (family == FAMILY_IPV4) {
		struct reverse_sk4_row row = {
			.address = service->address.v4,
			.port = service->port,
			.rev_nat = rev_nat,
		};

		return bpf_map_update_elem(&cilium_lb4_reverse_sk, &key, &row, BPF_ANY);
	} else {
		struct reverse_sk6_row row = {.port = service->port, .rev_nat = rev_nat};

		__builtin_memcpy(row.address, &service->address, 16);
		return bpf_map_update_elem(&cilium_lb6_reverse_sk, &key, &row, BPF_ANY);
	}
}

/* Notes what a socket asked for, by the backend that it was given. */
always_inline long socket_note(__u64 socket, const struct end *service, const struct end *backend, __be16 rev_nat,
			       int family)
{
	struct socket_set *set = socket_set(socket);
	enum noted said;
	long error;

	/* The map has room for all of them. */
	if (!set)
		return -1;
	said = note_says(set, socket, service, backend, rev_nat, family);
	if (said == NOTED ||
	    (said == NOTED_NOT && note_add(set, socket, service, backend, rev_nat, family)))
		return 0;
	error = reverse_sk_put(socket, service, backend, rev_nat, family);
	/* It asked for another service before: from now on it is known by the row. */
	if (!error && said == NOTED_OTHERWISE)
		note_drop(set, socket, backend, family);
	return error;
}

/* Replaces a backend by the service that the socket asked for. Returns whether there was one. */
always_inline bool socket_recall(__u64 socket, struct end *end, int family)
{
	union reverse_sk_key key __attribute__((aligned(8)));
	struct socket_set *set = socket_set(socket);

	for (int i = 0; set && i < SOCKET_NOTES; i++) {
		const struct socket_note *note = &set->notes[i];
		struct end service = {.family = family};

		if (!note_is_of(set, i, socket, end, family))
			continue;
		__builtin_memcpy(&service.address, note->service, 16);
		service.port = note->service_port;
		/* Unless it was given away meanwhile. */
		if (note_socket(set, i) != socket)
			break;
		*end = service;
		return true;
	}
	reverse_sk_key(&key, socket, end, family);
	if (family == FAMILY_IPV4) {
		struct reverse_sk4_row *row = bpf_map_lookup_elem(&cilium_lb4_reverse_sk, &key);

		if (!row)
			return false;
		end->address.v4 = row->address;
		end->port = row->port;
	} else {
		struct reverse_sk6_row *row = bpf_map_lookup_elem(&cilium_lb6_reverse_sk, &key);

		if (!row)
			return false;
		__builtin_memcpy(&end->address, row->address, 16);
		end->port = row->port;
	}
	return true;
}

/* Forgets what a socket asked for. Of the maps' rows, that of the backend it was connected to. */
always_inline void socket_forget(__u64 socket, const struct end *backend, int family)
{
	union reverse_sk_key key __attribute__((aligned(8)));
	struct socket_set *set = socket_set(socket);
	bool was_in_set = false;

	if (!set)
		return;
	for (int i = 0; i < SOCKET_NOTES; i++) {
		if (note_socket(set, i) != socket)
			continue;
		was_in_set |= note_is_of(set, i, socket, backend, family);
		note_free(set, i);
	}
	if (was_in_set)
		return;
	reverse_sk_key(&key, socket, backend, family);
	if (family == FAMILY_IPV4)
		bpf_map_delete_elem(&cilium_lb4_reverse_sk, &key);
	else
		bpf_map_delete_elem(&cilium_lb6_reverse_sk, &key);
}
