// What an address says: which view of what, in which life, at which moment, with which range, filter and order.

/** The parts of an address. */
export function read(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/").map(unescaped);
  return { view, rest: rest.filter(Boolean), query: new URLSearchParams(query ?? "") };
}

/** The address of a view; what is undefined or empty is left out. */
export function write(view, rest, members) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) query.set(name, value === true ? "1" : String(value));
  }
  const path = [view, ...rest.map(encodeURIComponent)].join("/");
  const text = query.toString();
  return text ? `#/${path}?${text}` : `#/${path}`;
}

function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * What an address says of a member. A whole address, which names its life, says by leaving it out that it is as usual;
 * another one, that it stays as it is.
 */
export function told(query, name, usual, now) {
  if (query.has(name)) return query.get(name);
  return query.has("life") ? usual : now;
}

/** The page of an endpoint: by its pod, if it has one. */
export function endpointPage(cell) {
  return cell.pod ? `#/endpoints/${cell.pod}` : `#/endpoints/${cell.endpoint}`;
}
